"""The clock of the supervisor and its runners: the time of day, which nobody can set.

It is the kernel's time since the boot plus an offset, the same for all who look after one directory
for as long as the machine is up. So the difference of two instants is how long it really was, also
where the wall clock was set in between; and it goes on while the machine sleeps.
"""

import contextlib
import os
import time

_FILE = "clock"
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_offset_ms: int | None = None  # of this process; runners are forked, and inherit it


def boottime_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def boottime() -> float:
    """For timers, in seconds."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def begin(root: str, boot: str) -> None:
    """Before anything is timed: take the offset of this directory and boot, or make it."""
    global _offset_ms
    _offset_ms = offset_of(root, boot)
    if _offset_ms is not None:
        return
    _offset_ms = wall_ms() - boottime_ms()
    with contextlib.suppress(OSError):  # a full disk: then it holds for this process alone
        _write(f"{root}/{_FILE}", f"{boot} {_offset_ms}\n".encode())


def now_ms() -> int:
    return wall_ms() if _offset_ms is None else boottime_ms() + _offset_ms


def offset_of(root: str, boot: str) -> int | None:
    """None where this directory has none yet for this boot."""
    try:
        file = os.open(f"{root}/{_FILE}", _READ)
    except OSError:
        return None
    try:
        whose, _, offset = os.read(file, 200).decode(errors="replace").partition(" ")
        return int(offset) if whose == boot else None
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)


def _write(path: str, content: bytes) -> None:
    """Whole or not at all: who reads half of it would have another clock."""
    new = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, content)
    finally:
        os.close(file)
    os.rename(new, path)
