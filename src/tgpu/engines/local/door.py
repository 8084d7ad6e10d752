"""The supervisor's lock, which makes it the only one in its directory, and its socket.

A directory can be removed and made anew under a living supervisor, and a socket can be removed from
it. So nothing here is unlinked by its path alone: only where the lock at that path is the one we
hold is what lies beside it ours.
"""

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator

from tgpu.engines.local import paths

# A runner just forked by a supervisor that was killed may hold its lock for a moment.
_LOCK_SECONDS = 2.0


class Door:
    """Made by `take`, for as long as the process lives."""

    def __init__(self, root: str, lock: int) -> None:
        self._root = root
        self._lock = lock
        self._made: tuple[int, int] | None = None  # the socket's file, by device and number

    def listen(self) -> socket.socket:
        """A new listener at our place. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._socket)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            with _address(self._root) as address:
                listener.bind(address)
        except OSError:
            listener.close()
            raise
        finally:
            os.umask(before)  # jobs inherit it: it must stay what the user has
        listener.listen(64)
        self._made = file_at(self._socket)
        return listener

    @property
    def is_ours(self) -> bool:
        """Whether the directory is still the one that we locked."""
        locked = os.fstat(self._lock)
        return file_at(f"{self._root}/{paths.LOCK}") == (locked.st_dev, locked.st_ino)

    @property
    def is_shut(self) -> bool:
        """Whether our socket was taken away from a directory that is ours."""
        return self.is_ours and file_at(self._socket) != self._made

    def close(self) -> None:
        if self.is_ours and file_at(self._socket) == self._made:
            with contextlib.suppress(OSError):
                os.unlink(self._socket)

    @property
    def _socket(self) -> str:
        return f"{self._root}/{paths.SOCKET}"


def take(root: str) -> Door | None:
    """None: another supervisor has the directory."""
    fd = os.open(f"{root}/{paths.LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline or answers(root):
                os.close(fd)
                return None
            time.sleep(0.02)
        else:
            return Door(root, fd)


def connect(directory: str) -> socket.socket:
    """A connection to the directory's supervisor. Raises OSError where none answers."""
    with _address(directory) as address:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(address)
        except OSError:
            sock.close()
            raise
        return sock


def answers(directory: str) -> bool:
    """Whether a supervisor serves it."""
    try:
        connect(directory).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _address(directory: str) -> Iterator[str]:
    """The socket's path by way of a descriptor: a Unix socket address holds 107 bytes only."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{paths.SOCKET}"
    finally:
        os.close(fd)


def file_at(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino
