"""Claims the directory of an attempt, even if another job with the same id left one.

Job ids begin anew in a new database, and again after a backup was put back. What an earlier job
left is kept beside the new one, and its record is never taken for the new one's.
"""

import contextlib
import fcntl
import os
import time
from typing import Final

from tgpu.engines.local import record
from tgpu.engines.local.paths import aside
from tgpu.engines.local.processes import CannotTell, is_alive

# A supervisor that looks whether a runner has an attempt holds its lock for a moment. Whoever holds
# it for longer is none of ours: a job of the same user can, and must not hold up a start for ever.
_LOCK_SECONDS: Final = 5.0


class DirectoryTaken(Exception):
    """The directory belongs to an attempt of another job that still runs."""


def claim(path: str, identity: str, boot: str) -> tuple[int, int | None]:
    """The directory, locked, and its new record; no record where this attempt has one already.

    Raises InTheWay with the sentence, and OSError.
    """
    while True:
        directory = record.open_directory(path)
        try:
            _lock(directory, path, identity)
            paper = record.create_claim(directory)
            if paper is not None or not _move_aside(path, identity, boot):
                return directory, paper
        except CannotTell as error:
            os.close(directory)
            raise DirectoryTaken(f"it cannot be told whose its directory is: {error}") from error
        except BaseException:
            os.close(directory)
            raise
        os.close(directory)  # moved away: there is room for our own now


def _lock(directory: int, path: str, identity: str) -> None:
    """Takes the lock that tells the living runner of an attempt."""
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            found = record.read_any_claim(path)
            if found is not None and not found.is_of(identity):
                raise _in_the_way(path, found) from None
            if time.monotonic() > until:
                raise DirectoryTaken("another process holds a lock on its directory") from None
            time.sleep(0.01)


def _move_aside(path: str, identity: str, boot: str) -> bool:
    """Whether the directory was another job's, and is out of the way now. We hold its lock."""
    found = record.read_any_claim(path)
    if found is None or found.is_of(identity):
        return False
    if os.path.lexists(aside(path, identity)):
        return False  # it ran, and was moved aside itself: its record there answers
    if found.main and found.boot == boot and is_alive(found.main, found.main_start):
        raise _in_the_way(path, found)
    target = first = aside(path, found.identity)
    number = 1
    while os.path.lexists(target):
        number += 1
        target = f"{first}.{number}"
    with contextlib.suppress(FileNotFoundError):  # another runner was faster
        os.rename(path, target)
    return True


def _in_the_way(path: str, found: record.Claim) -> DirectoryTaken:
    running = f" (process {found.main})" if found.main else ""
    return DirectoryTaken(
        f"its directory {path} belongs to an earlier job of the same id that still runs{running}"
    )
