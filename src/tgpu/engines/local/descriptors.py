"""File descriptors: how many this process may have, and what to do when there are none left."""

import contextlib
import errno
import os
import resource
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

# What goes away by itself: others close files and end.
SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})

_FIRST_PAUSE_SECONDS: Final = 0.01
_LONGEST_PAUSE_SECONDS: Final = 1.0

_inherited: int | None = None  # the soft limit before we raised it
_core: tuple[int, int] | None = None  # the limit of core dumps before we had none


def raise_limit(inherited: int | None = None) -> None:
    """As many as the hard limit allows, for this process; `restore` is for those it starts.

    `inherited` is the soft limit that those shall have, where our own was raised before us.
    """
    global _inherited  # of the process, like the limit itself
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    _inherited = soft if inherited is None else inherited
    with contextlib.suppress(OSError, ValueError):  # no more than allowed is no reason to end
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def no_core_dumps() -> None:
    """For this process, which has the secrets of jobs in its memory; `restore` is for theirs."""
    global _core
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    _core = soft, hard
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def restore() -> None:
    """The soft limits as they were: programs that use select() break with more than they expect."""
    if _core is not None:
        resource.setrlimit(resource.RLIMIT_CORE, _core)
    if _inherited is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _inherited if hard == resource.RLIM_INFINITY else min(_inherited, hard)
    if wanted != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def inherited_limit() -> int:
    """The soft limit that jobs are to have."""
    if _inherited is not None:
        return _inherited
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def is_scarce(descriptor: int, reserve: int) -> bool:
    """Whether this newest descriptor is among the last ones, which are kept for what must go on."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft != resource.RLIM_INFINITY and descriptor >= soft - min(reserve, soft // 4)


def patiently(call: Callable[[], T], errors: Collection[int] = SCARCE) -> T:
    """Again and again while there are no descriptors for it; for whoever may be kept waiting."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return call()
        except OSError as error:
            if error.errno not in errors:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def close_all_but(kept: Iterable[int]) -> None:
    """Also where there is none left to list them with."""
    low = 0
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        highest = max(map(int, os.listdir("/proc/self/fd"))) + 1
    for descriptor in sorted(kept):
        if low < descriptor:  # else Python asks the kernel to close all there are
            os.closerange(low, descriptor)
        low = descriptor + 1
    if highest == resource.RLIM_INFINITY:
        highest = 1 << 20
    if low < highest:
        os.closerange(low, highest)
