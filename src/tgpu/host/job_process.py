"""A process of a running job, and its environment as the kernel shows it.

They are read from /proc, which shows them to the user the job runs as and to root, and to nobody
else: no secret of a job goes over a socket or stands on a command line.
"""

import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

# How far below a wrapper the command itself is: `conda run` starts a shell that starts it.
_WRAPPERS: Final = {"conda": 2, "mamba": 2, "uv": 1}


@dataclass(frozen=True, slots=True)
class ProcessSurroundings:
    env: dict[str, str]
    cwd: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    pid: int = 0


class NotTheirs(Exception):
    """The process belongs to somebody else, whose name this is."""


def surroundings(
    job_id: str, pid: int, rank: int | None, proc: Path = Path("/proc")
) -> ProcessSurroundings | None:
    """Those of a job's command, of one worker if it has several. None: it is not there any more.

    Raises NotTheirs.
    """
    for process in _below(pid, proc):
        env = _environ(process, proc)
        # Processes of ours that stand before the command have no job in their environment.
        if env.get("TGPU_JOB_ID") != job_id:
            continue
        if rank is None or env.get("TGPU_RANK") == str(rank):
            return _of(_unwrapped(process, job_id, proc), proc)
    return None


def _unwrapped(pid: int, job_id: str, proc: Path) -> int:
    for _ in range(_layers(_words(pid, proc))):
        inside = [p for p in _children(pid, proc) if _environ(p, proc).get("TGPU_JOB_ID") == job_id]
        pid = inside[0] if inside else pid
    return pid


def _layers(words: list[str]) -> int:
    """As the process was started: a wrapper is a program, or a script that one runs."""
    for name, following in pairwise(words[:3]):
        if following == "run" and os.path.basename(name) in _WRAPPERS:
            return _WRAPPERS[os.path.basename(name)]
    return 0


def _words(pid: int, proc: Path) -> list[str]:
    try:
        return os.fsdecode((proc / str(pid) / "cmdline").read_bytes()).split("\0")
    except OSError:
        return []


def _of(pid: int, proc: Path) -> ProcessSurroundings | None:
    try:
        status = (proc / str(pid) / "status").read_text()
        cwd = os.readlink(proc / str(pid) / "cwd")
    except OSError:
        return None
    facts = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    groups = tuple(int(word) for word in facts["Groups"].split())
    uid, gid = int(facts["Uid"].split()[1]), int(facts["Gid"].split()[1])
    return ProcessSurroundings(_environ(pid, proc), cwd, uid, gid, groups, pid)


def _below(pid: int, proc: Path) -> Iterator[int]:
    """The process and all below it, the nearest first."""
    level = [pid]
    while level:
        yield from level
        level = [child for parent in level for child in _children(parent, proc)]


def _children(pid: int, proc: Path) -> list[int]:
    found: list[int] = []
    for listing in sorted((proc / str(pid) / "task").glob("*/children")):
        try:
            found += map(int, listing.read_text().split())
        except OSError:
            continue
    return found


def _environ(pid: int, proc: Path) -> dict[str, str]:
    try:
        text = os.fsdecode((proc / str(pid) / "environ").read_bytes())
    except PermissionError:
        raise NotTheirs(_owner(pid, proc)) from None
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in text.split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs}


def _owner(pid: int, proc: Path) -> str:
    try:
        uid = os.stat(proc / str(pid)).st_uid
        return pwd.getpwuid(uid).pw_name
    except (OSError, KeyError):
        return "another user"
