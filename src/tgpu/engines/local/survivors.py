"""Finds what is left of an attempt that has neither runner nor supervisor any more.

Its processes are children of init then, and a job may have done anything to them. Each of these
tells that a process is the attempt's: its control group; its session or process group; output that
goes to the attempt's directory; an environment with the attempt's marks. A process that cannot be
looked at, and may be one of them, is not free to be forgotten.
"""

import errno
import os
import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tgpu.engines.local import runner_group
from tgpu.engines.local.attempts import Attempt
from tgpu.engines.local.paths import attempt_path
from tgpu.engines.local.processes import (
    CannotTell,
    Process,
    all_processes,
    descendants,
    output_directories,
)

_MOST_BYTES: Final = 4 << 20  # of an environment: the kernel takes no more than that by default
_REMEMBERED_SECONDS: Final = 2.0
_FORBIDDEN: Final = (errno.EACCES, errno.EPERM)
_GONE: Final = (errno.ENOENT, errno.ESRCH)
# Who becomes the parent of what was left behind.
_INITS: Final = ("systemd", "init")


class AttemptMark(NamedTuple):
    """What the environment of a process says of the attempt that it is of."""

    job_id: str = ""
    attempt: str = ""
    log_dir: str = ""
    identity: str = ""


_VARIABLES: Final = {
    b"TGPU_JOB_ID": "job_id",
    b"TGPU_ATTEMPT": "attempt",
    b"TGPU_LOG_DIR": "log_dir",
    b"TGPU_JOB_UUID": "identity",
}
NO_MARK: Final = AttemptMark()


class Survivors:
    def __init__(self, folders: Iterable[str]) -> None:
        """`folders` are the names that the engine's directory goes by."""
        self._folders = tuple(folders)
        self._marks: dict[tuple[int, int], AttemptMark | None] = {}  # None: not for us to read
        self._read_at = 0.0

    def of(
        self, attempt: Attempt, *, skip: Iterable[int] = (), fresh: bool = False
    ) -> list[Process]:
        """Every living process of the attempt. Raises CannotTell.

        What was read of others' environments is remembered for a moment, unless it shall be
        `fresh`.
        """
        everyone = self._everyone(skip, fresh)
        inside = runner_group.members(attempt.group)
        inside |= runner_group.members(attempt.memory_group)
        known = [p for p in everyone if p.pid in inside or self._is_of(p, attempt, everyone)]
        found = {process.pid: process for process in known}
        for root in known:
            found.update((process.pid, process) for process in descendants(root.pid, skip))
        return list(found.values())

    def hidden(self, attempt: Attempt, skip: Iterable[int] = ()) -> Process | None:
        """One that may be the attempt's, and that we are not shown enough of. Raises CannotTell."""
        if attempt.group:
            return None  # then the kernel tells, whatever is hidden
        everyone = {process.pid: process for process in self._everyone(skip, fresh=False)}
        for process in everyone.values():
            parent = everyone.get(process.ppid)
            if (
                self._mark(process) is None
                and process.start >= attempt.since
                and (process.ppid == 1 or (parent is not None and parent.name in _INITS))
                and _uid(process.pid) == attempt.uid
            ):
                return process
        return None

    def is_marked(self, process: Process, attempt: Attempt) -> bool:
        """Whether a process says itself, or its group says, that it is of this attempt."""
        if process.pid in runner_group.members(attempt.group):
            return True
        mark = self._mark(process)
        return mark is not None and self._fits(mark, attempt)

    def _is_of(self, process: Process, attempt: Attempt, everyone: Sequence[Process]) -> bool:
        mark = self._mark(process)
        if mark is not None and self._fits(mark, attempt):
            return True
        # Once the command's pid belongs to another process, so may its session.
        main, start = attempt.main, attempt.main_start
        is_reused = any(p.pid == main and p.start != start for p in everyone)
        is_near = main in (process.session, process.group) and process.start >= start
        if main and is_near and not is_reused:
            return True
        return attempt.path in output_directories(process.pid)

    def _fits(self, mark: AttemptMark, attempt: Attempt) -> bool:
        job_id, number, identity = attempt.key
        if (mark.job_id, mark.attempt) != (job_id, str(number)):
            return False
        if identity and mark.identity and mark.identity != identity:
            return False
        paths = [f"{folder}/{attempt_path(*attempt.key)}" for folder in self._folders]
        # The workers of a gang may have folders of their own in it.
        return any(f"{mark.log_dir}/".startswith(f"{path}/") for path in paths)

    def _everyone(self, skip: Iterable[int], fresh: bool) -> list[Process]:
        now = time.monotonic()
        if fresh or now - self._read_at > _REMEMBERED_SECONDS:
            self._marks.clear()
            self._read_at = now
        left_out = {os.getpid(), *skip}
        return [process for process in all_processes() if process.pid not in left_out]

    def _mark(self, process: Process) -> AttemptMark | None:
        name = (process.pid, process.start)
        if name not in self._marks:
            self._marks[name] = _read_mark(process.pid)
        return self._marks[name]


def _read_mark(pid: int) -> AttemptMark | None:
    """None where it is not for us to read. Raises CannotTell."""
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = b""
            while len(text) < _MOST_BYTES and (piece := os.read(fd, 1 << 17)):
                text += piece
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in _GONE:
            return NO_MARK
        if error.errno in _FORBIDDEN:
            return None
        raise CannotTell(f"the environment of process {pid} cannot be read", error) from error
    pairs = (entry.partition(b"=") for entry in text.split(b"\0"))
    found = {_VARIABLES[name]: os.fsdecode(value) for name, _, value in pairs if name in _VARIABLES}
    return AttemptMark(**found) if found else NO_MARK


def _uid(pid: int) -> int | None:
    """Whom it runs as. Not by the owner of its folder, which is root where it hides itself."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = file.read(4096).splitlines()
    except OSError as error:
        if error.errno in (*_GONE, *_FORBIDDEN):
            return None
        raise CannotTell(f"process {pid} cannot be looked at", error) from error
    words = next((line.split() for line in lines if line.startswith(b"Uid:")), [])
    return int(words[1]) if len(words) > 1 else None
