"""The sessions of GNU screen that jobs run in: found by asking screen itself."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Final

from gpu_scheduler.cli.failures import Failure
from gpu_scheduler.wire.session_name import job_of

# "	4711.gpujob_0_test_7	(11/16/26 03:03:33)	(Detached)"; not every screen shows the date.
_LINE: Final = re.compile(r"^\s+(\d+)\.(\S+)\s.*\((\w[\w ,-]*)\)\s*$")
_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ScreenSession:
    job_id: str
    name: str
    pid: int  # of screen itself
    state: str  # "attached" or "detached", as screen has it

    @property
    def address(self) -> str:
        """What names this session and no other, whatever the names of others begin with."""
        return f"{self.pid}.{self.name}"

    def as_json(self) -> dict[str, object]:
        return {"job_id": self.job_id, "session": self.name, "pid": self.pid, "state": self.state}


def find_screen() -> str:
    found = shutil.which("screen")
    if found is None:
        raise Failure("GNU screen is not installed", "apt install screen", code="NO_SCREEN")
    return found


def screen_sessions() -> list[ScreenSession]:
    """Of this user, on this machine, of jobs alone."""
    # Its exit code says how many there are, in a way that differs between versions.
    ran = subprocess.run(
        [find_screen(), "-ls"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_SECONDS,
        check=False,
    )
    return parse_sessions(ran.stdout)


def parse_sessions(text: str) -> list[ScreenSession]:
    found = []
    for line in text.splitlines():
        match = _LINE.match(line)
        job_id = job_of(match[2]) if match else None
        if match and job_id is not None:
            found.append(ScreenSession(job_id, match[2], int(match[1]), match[3].lower()))
    return sorted(found, key=lambda session: (len(session.job_id), session.job_id))
