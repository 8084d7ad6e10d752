"""Safely opens files in directories that a job can write to: logs, records, marks.

Whoever runs as the owner of such a directory can put a link, a pipe or a device in a file's place.
So nothing here follows a link below the engine's directory, nothing waits for the other end of a
pipe or for the holder of a lease, and only plain files with one name are read. Standard library
only: the supervisor uses it too.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterable
from typing import Final

from tgpu.engines.log_piece import NOTHING, Piece

# O_NONBLOCK also where a plain file is expected: the open of a pipe would wait for its other end,
# and the open of a file whose owner took a lease on it (fcntl F_SETLEASE) for up to 45 seconds.
READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# In an attempt's directory where the kernel ended it for reaching its memory limit, in bytes.
OUT_OF_MEMORY: Final = "out-of-memory"

_LEVELS: Final = 2  # below the jobs directory, which is the operator's: the job, the attempt
_MOST_STRETCHES: Final = 64  # of a file that are looked at: a job may make as many as it likes

_KINDS: Final = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotPlain(OSError):
    """Something else stands in a file's place; the sentence says what."""


def open_attempt(path: str) -> int:
    """A descriptor of an attempt's directory, no link on the way. Raises OSError."""
    base, *names = path.rsplit("/", _LEVELS)
    directory = os.open(base or "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return _descend(directory, names)


def make_attempt(path: str) -> int:
    """The same; directories that are missing are made, for this user alone.

    One that is there and somebody else's is refused: its owner could exchange what is in it.
    """
    base, *names = path.rsplit("/", _LEVELS)
    directory = os.open(base or "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in names:
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=directory)
        except OSError:
            os.close(directory)
            raise
        directory = _descend(directory, [name])
        if os.fstat(directory).st_uid != os.geteuid():
            os.close(directory)
            raise NotPlain(errno.EPERM, "somebody else's directory is in its place", name)
    return directory


def new_file(name: str, flags: int, directory: int) -> int:
    """A file that is ours and new. What stands in its place was put there, and is taken away."""
    flags |= os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, 0o600, dir_fd=directory)
    except FileExistsError:
        os.unlink(name, dir_fd=directory)
        return os.open(name, flags, 0o600, dir_fd=directory)


def open_plain(name: str, directory: int, flags: int = READ) -> int:
    """A descriptor of a plain file with this one name. Raises NotPlain, or another OSError."""
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EISDIR):
            raise _not_plain(name, directory) from None
        if error.errno == errno.EWOULDBLOCK:
            raise NotPlain(errno.EWOULDBLOCK, "a process holds a lease on it", name) from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NotPlain(errno.EINVAL, f"it is {_kind(status.st_mode)} and no file", name)
    if status.st_nlink > 1:
        os.close(descriptor)
        raise NotPlain(errno.EMLINK, "it has a second name (a hard link)", name)
    return descriptor


def read_whole(path: str, name: str, most: int) -> bytes:
    """Up to `most` bytes of a file in an attempt's directory. Raises OSError."""
    directory = open_attempt(path)
    try:
        descriptor = open_plain(name, directory)
    finally:
        os.close(directory)
    try:
        return _read(descriptor, 0, min(most, os.fstat(descriptor).st_size))
    finally:
        os.close(descriptor)


def read_piece(path: str, name: str, offset: int, limit: int) -> Piece:
    """Up to `limit` bytes from `offset`, or from there before the end where it is negative.

    Stretches that are not there are passed over: a piece ends before one, and the next begins
    behind it. From the end, a piece begins behind the last. Nothing where there is no file. Raises
    OSError.
    """
    try:
        directory = open_attempt(path)
    except FileNotFoundError:
        return NOTHING
    try:
        descriptor = open_plain(name, directory)
    except FileNotFoundError:
        return NOTHING
    finally:
        os.close(directory)
    try:
        return _piece(descriptor, offset, limit)
    finally:
        os.close(descriptor)


def _piece(descriptor: int, offset: int, limit: int) -> Piece:
    size = os.fstat(descriptor).st_size
    stretches = _stretches(descriptor, size)
    left_out = size - sum(end - begin for begin, end in stretches)
    if offset < 0:
        begin, end = stretches[-1] if stretches else (size, size)
        start = max(begin, size + offset)
    else:
        # Never behind the end: the file system refuses to go very far, and nothing is there.
        start, end = next(((max(b, offset), e) for b, e in stretches if offset < e), (size, size))
    return Piece(_read(descriptor, start, min(limit, end - start)), start, size, left_out)


def _stretches(descriptor: int, size: int) -> list[tuple[int, int]]:
    """Where the file has something: all of it, unless it was cut in the middle."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < size:
        try:
            begin = os.lseek(descriptor, at, os.SEEK_DATA)
            end = min(size, os.lseek(descriptor, begin, os.SEEK_HOLE))
        except OSError:  # ENXIO: nothing but a hole up to the end
            break
        if begin >= size:
            break
        if len(found) == _MOST_STRETCHES:
            found[-1] = (found[-1][0], size)
            break
        found.append((begin, end))
        at = end
    return found


def _read(descriptor: int, start: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0 and (part := os.pread(descriptor, min(length, 1 << 20), start)):
        parts.append(part)
        start += len(part)
        length -= len(part)
    return b"".join(parts)


def _descend(directory: int, names: Iterable[str]) -> int:
    for name in names:
        try:
            below = os.open(name, DIRECTORY, dir_fd=directory)
        except NotADirectoryError:
            raise _not_plain(name, directory, "directory") from None
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise _not_plain(name, directory, "directory") from None
        finally:
            os.close(directory)
        directory = below
    return directory


def _not_plain(name: str, directory: int, wanted: str = "file") -> NotPlain:
    try:
        kind = _kind(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        kind = "something else"
    return NotPlain(errno.EINVAL, f"it is {kind} and no {wanted}", name)


def _kind(mode: int) -> str:
    return next((name for is_one, name in _KINDS if is_one(mode)), "something else")
