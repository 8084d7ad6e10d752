"""Processes of this machine by their numbers, as its kernel tells of them now."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def lives(pid: int) -> bool:
    """Whether a process runs. One that ended and whose parent has not looked yet does not."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return False
    # The name, in brackets, may contain anything; the state is the word behind it.
    return text.rpartition(")")[2].split()[:1] not in (["Z"], ["X"])


def uid_of(pid: int) -> int | None:
    """Whose it is; None: it is over."""
    try:
        return os.stat(_PROC / str(pid)).st_uid
    except OSError:
        return None


def with_argument(word: str) -> Iterator[int]:
    """Those that were started with this word on their command line."""
    wanted = os.fsencode(word)
    for process in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (process / "cmdline").read_bytes().split(b"\0"):
                yield int(process.name)
