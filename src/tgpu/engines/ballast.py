"""The ballast: a file that reserves space for when the disk is full.

Whoever cannot write for lack of space takes it away and tries again: the service for ends and
cancels, the supervisor for its journal. The service makes it again when there is room. Standard
library only.
"""

import contextlib
import errno
import os
from typing import Final, NamedTuple

NAME: Final = "ballast"
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

_SHARE: Final = 20  # no more than this part of a small file system
_LEAST: Final = 64 << 10


class Room(NamedTuple):
    """Of a file system, as this user may use it."""

    free: int
    total: int
    free_inodes: int | None  # None: it does not count them
    read_only: bool = False


def room_at(directory: str) -> Room:
    """Raises OSError."""
    status = os.statvfs(directory)
    inodes = status.f_favail if status.f_files else None
    return Room(
        status.f_bavail * status.f_frsize,
        status.f_blocks * status.f_frsize,
        inodes,
        bool(status.f_flag & os.ST_RDONLY),
    )


def give_up(directory: str) -> bool:
    """Whether there was one to give up."""
    try:
        os.unlink(f"{directory}/{NAME}")
    except OSError:
        return False
    return True


def keep(directory: str, wanted: int) -> bool:
    """See to it that there is one of that size; false where there is no room for it."""
    size = _size(room_at(directory).total, wanted)
    path = f"{directory}/{NAME}"
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        if status.st_size == size and status.st_blocks * 512 >= size:
            return True
        os.unlink(path)
    # Not into the last corner: what it would take away now is what it is to save.
    return room_at(directory).free >= 2 * size and _make(path, size)


def _size(total: int, wanted: int) -> int:
    return max(_LEAST, min(wanted, total // _SHARE))


def _make(path: str, size: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}.new")
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        file = os.open(f"{path}.new", flags, 0o600)
    except OSError:
        return False
    try:
        os.posix_fallocate(file, 0, size)  # really there, and not only its length
        os.rename(f"{path}.new", path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(f"{path}.new")
        return False
    finally:
        os.close(file)
    return True
