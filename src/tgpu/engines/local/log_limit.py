"""Keeps a job's logs within their limit: the beginning and the end stay, the middle is removed.

The command writes to its file itself, without anybody in between, so its output does not depend on
any process of ours. Whoever watches over it punches a hole into the file: its blocks are free
again, offsets stay what they are, and the command appends as before. The last bytes before the hole
become a line that says how much is missing. Where the file system cannot make holes, what is behind
the beginning is cut off instead.
"""

import contextlib
import ctypes
import os
import signal
from typing import Final

from tgpu.engines.attempt_files import open_plain
from tgpu.engines.local.paths import STDERR, STDOUT
from tgpu.text.sizes import bytes_text

_PUNCH_HOLE: Final = 1 | 2  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_OPEN: Final = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_LINE: Final = 128  # bytes of the line about what is missing, always as many
_SMALLEST: Final = 64 << 10
# A command that writes a gigabyte a second writes 50 MB between two looks, once it has been seen to
# write; one that was silent is looked at every second.
_SHORTEST: Final = 0.05
_LONGEST: Final = 1.0

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class LogLimit:
    """Of one attempt's two logs, `limit` bytes each."""

    def __init__(self, directory: int, limit: int) -> None:
        """Raises OSError where they cannot be opened."""
        self._limit = max(limit, _SMALLEST)
        self._logs: list[_Log] = []
        for name in (STDOUT, STDERR):
            self._logs.append(_Log(open_plain(name, directory, _OPEN), self._limit))

    def look(self) -> bool:
        """Cut what has grown too long; whether anything has grown at all."""
        grown = [log.look() for log in self._logs]
        return any(grown)

    def close(self) -> None:
        for log in self._logs:
            os.close(log.file)
        self._logs.clear()


class LogWatch:
    """Looks at the logs now and then while its process waits for something else."""

    def __init__(self, directory: int, limit: int | None) -> None:
        self._limit: LogLimit | None = None
        self._pause = _SHORTEST
        if not limit:
            return
        with contextlib.suppress(OSError):  # no descriptors: the job matters more
            self._limit = LogLimit(directory, limit)
            signal.signal(signal.SIGALRM, self._look)
            signal.setitimer(signal.ITIMER_REAL, self._pause)

    def end(self) -> None:
        """With a last look: what was written since the one before."""
        if self._limit is None:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with contextlib.suppress(OSError):
            self._limit.look()
        self._limit.close()
        self._limit = None

    def _look(self, *_: object) -> None:
        # Waiting goes on afterwards: interrupted system calls are made again by Python itself.
        if self._limit is None:
            return
        grown = False
        with contextlib.suppress(OSError):
            grown = self._limit.look()
        self._pause = _SHORTEST if grown else min(_LONGEST, self._pause * 2)
        signal.setitimer(signal.ITIMER_REAL, self._pause)


class _Log:
    __slots__ = ("_block", "_cut_off", "_head", "_limit", "_size", "file")

    def __init__(self, file: int, limit: int) -> None:
        self.file = file
        self._limit = limit
        self._block = min(1 << 20, max(4096, os.fstat(file).st_blksize))
        self._head = max(self._block, _down(limit // 2, self._block))
        self._size = 0
        self._cut_off = 0  # where there can be no holes

    def look(self) -> bool:
        size = os.fstat(self.file).st_size
        grown, self._size = size != self._size, size
        if size <= self._limit:
            return grown
        begin = self._end_of_hole()
        if self._head + size - begin > self._limit:
            # Half of what there is room for behind the hole, so that this is not done at each look.
            self._take_out(_down(size - self._limit // 4, self._block), size)
        return grown

    def _end_of_hole(self) -> int:
        """Where the file goes on behind the beginning; also one that another process cut."""
        try:
            return os.lseek(self.file, self._head, os.SEEK_DATA)
        except OSError:  # nothing but a hole up to the end
            return self._head

    def _take_out(self, end: int, size: int) -> None:
        if end <= self._head:
            return
        if _libc.fallocate(self.file, _PUNCH_HOLE, self._head, end - self._head) == 0:
            self._say(end - self._head)
            return
        # No holes here: what comes next is appended to the beginning.
        os.ftruncate(self.file, self._head)
        self._cut_off += size - self._head
        self._size = self._head
        self._say(self._cut_off)

    def _say(self, missing: int) -> None:
        left_out, limit = (bytes_text(size, ".4g") for size in (missing, self._limit))
        text = f"[… {left_out} of output left out: the log limit is {limit}"
        words = text.encode()
        line = b"\n" + words + b" " * (_LINE - 7 - len(words)) + " …]\n".encode()
        os.pwrite(self.file, line, self._head - len(line))


def _down(size: int, block: int) -> int:
    return size // block * block
