"""Leftovers of deleted data directories: supervisors without a directory, sockets without a
supervisor.

Looked for in /proc, of this user alone, by the lock that a supervisor holds: only where the file at
its path is the one it locked is the directory its own. Nothing is ended or unlinked by its name: a
process by its number and start, after another look, a socket by who holds the lock beside it.
"""

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tgpu.engines.local import paths
from tgpu.engines.local.door import answers, file_at
from tgpu.engines.local.processes import (
    CannotTell,
    Process,
    all_processes,
    descendants,
    is_alive,
    send_signal,
)

_MODULE: Final = b".engines.local.supervisor"  # whatever the package was called then
_DIR: Final = b"--dir="
_RUNNER: Final = "tgpu-runner"
_END_SECONDS: Final = 10.0


class LeftoverKind(StrEnum):
    ORPHAN = "orphan"  # a supervisor whose directory was removed, or is another's now
    DEAF = "deaf"  # a supervisor that has its directory, and no socket in it
    STALE = "stale"  # a socket that nobody listens on


@dataclass(frozen=True, slots=True)
class Leftover:
    kind: LeftoverKind
    directory: str
    supervisor: Process | None = None
    jobs: tuple[int, ...] = ()  # processes of jobs that it still looks after

    @property
    def is_mendable(self) -> bool:
        """What jobs run in is nobody's to end but their owner's."""
        return not (self.kind is LeftoverKind.ORPHAN and self.jobs)


def find_leftovers(directory: str) -> list[Leftover]:
    """Of this user on this machine; sockets of the engine's directory named here alone."""
    found: list[Leftover] = []
    ours = os.path.realpath(directory)
    is_held = False
    for process, root in _supervisors():
        locked = _locked(process.pid)
        if locked is None:
            continue  # it is starting, or another has the directory
        if locked != file_at(f"{root}/{paths.LOCK}"):
            found.append(Leftover(LeftoverKind.ORPHAN, root, process, _jobs(process)))
        elif os.path.realpath(root) == ours:
            is_held = True
            if not answers(ours):
                found.append(Leftover(LeftoverKind.DEAF, root, process, _jobs(process)))
    socket = f"{ours}/{paths.SOCKET}"
    if not is_held and file_at(socket) is not None and not answers(ours) and _is_free(ours):
        found.append(Leftover(LeftoverKind.STALE, ours))
    return found


def mend(leftover: Leftover) -> bool:
    """Whether it is gone now. What has changed since it was found is left alone."""
    if leftover.kind is LeftoverKind.STALE:
        return _remove_socket(leftover.directory)
    process = leftover.supervisor
    assert process is not None
    still = [one for one in find_leftovers(leftover.directory) if _is_same(one, process)]
    if not still:
        return True  # it ended, or has its socket again
    if not still[0].is_mendable:
        return False
    # Its jobs go on without it, and the next supervisor of the directory takes them over.
    send_signal(process, signal.SIGTERM)
    deadline = time.monotonic() + _END_SECONDS
    while is_alive(process.pid, process.start):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _is_same(one: Leftover, process: Process) -> bool:
    found = one.supervisor
    return found is not None and (found.pid, found.start) == (process.pid, process.start)


def _supervisors() -> Iterator[tuple[Process, str]]:
    """With the directories that they were started for."""
    for process in all_processes():
        try:
            if process.is_over or os.stat(f"/proc/{process.pid}").st_uid != os.geteuid():
                continue
            with open(f"/proc/{process.pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        roots = [word.removeprefix(_DIR) for word in words if word.startswith(_DIR)]
        if roots and any(word.endswith(_MODULE) for word in words):
            yield process, os.fsdecode(roots[0])


def _locked(pid: int) -> tuple[int, int] | None:
    """The lock file that it has open, by device and number."""
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):
            target = os.readlink(f"{folder}/{name}").removesuffix(" (deleted)")
            if target.endswith(f"/{paths.LOCK}"):
                found = os.stat(f"{folder}/{name}")
                return found.st_dev, found.st_ino
    except OSError:
        return None
    return None


def _jobs(supervisor: Process) -> tuple[int, ...]:
    """The first processes of commands: what hangs below a runner, or the supervisor itself."""
    try:
        below = descendants(supervisor.pid)
    except CannotTell:
        return (supervisor.pid,)  # nobody knows: as if there were some
    keepers = {supervisor.pid} | {one.pid for one in below if one.name == _RUNNER}
    below = [one for one in below if one.pid not in keepers and not one.is_over]
    return tuple(one.pid for one in below if one.ppid in keepers)


def _remove_socket(directory: str) -> bool:
    """Only as the one who holds the lock beside it, at its own path."""
    try:
        lock = os.open(f"{directory}/{paths.LOCK}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = os.fstat(lock)
        is_ours = (held.st_dev, held.st_ino) == file_at(f"{directory}/{paths.LOCK}")
        if not is_ours or answers(directory):
            return False
        os.unlink(f"{directory}/{paths.SOCKET}")
    except OSError:  # a supervisor has it now
        return False
    finally:
        os.close(lock)
    return True


def _is_free(directory: str) -> bool:
    """Whether nobody holds the lock; a supervisor of another user may, whom we do not see."""
    try:
        lock = os.open(f"{directory}/{paths.LOCK}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
