"""The sessions of GNU screen that jobs run in: found by asking screen itself."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tgpu.text.session_name import job_of

# "	4711.gpujob_0_test_7	(11/16/26 03:03:33)	(Detached)"; not every screen shows the date.
_LINE: Final = re.compile(r"^\s+(\d+)\.(\S+)\s.*\((\w[\w ,-]*)\)\s*$")
_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class JobSession:
    job_id: str
    name: str
    pid: int  # of screen or of the tmux server
    state: str  # "attached" or "detached", as the program has it
    program: str  # "screen" or "tmux"
    enter: tuple[str, ...]  # the command that attaches to this session and no other

    def as_json(self) -> dict[str, object]:
        return {
            "job_id": self.job_id,
            "session": self.name,
            "pid": self.pid,
            "state": self.state,
            "program": self.program,
        }


def screen_sessions() -> Iterator[JobSession]:
    """Of this user, on this machine, of jobs alone. None where screen is not installed."""
    screen = shutil.which("screen")
    if screen is None:
        return
    # Its exit code says how many there are, in a way that differs between versions.
    ran = subprocess.run(
        [screen, "-ls"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_SECONDS,
        check=False,
    )
    yield from parse_sessions(ran.stdout, screen)


def parse_sessions(text: str, screen: str) -> Iterator[JobSession]:
    for line in text.splitlines():
        match = _LINE.match(line)
        job_id = job_of(match[2]) if match else None
        if match and job_id is not None:
            pid, name, state = match.groups()
            # With the pid, whatever the names of others begin with.
            enter = (screen, "-x", f"{pid}.{name}")
            yield JobSession(job_id, name, int(pid), state.lower(), "screen", enter)
