"""Processes that stand before another one: they speak in its log, and end as it does."""

import contextlib
import os
import resource
import signal
from collections.abc import Iterable
from typing import NoReturn


def write_or_lose(target: int, data: bytes) -> None:
    """On a full disk the words are lost, and the command goes on: so it would with its own."""
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(target, data) :]


def say_in_log(message: str) -> None:
    write_or_lose(2, f"tgpu: {message}\n".encode(errors="replace"))


def signal_pipe(numbers: Iterable[int]) -> int:
    """A descriptor from which a loop reads the numbers of these signals as they come."""
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in numbers:
        with contextlib.suppress(OSError, ValueError):  # some are not ours to catch
            signal.signal(number, _nothing)
    return woken


def _nothing(*_: object) -> None:
    """A signal is told to the loop through its descriptor."""


def end_as(status: int) -> NoReturn:
    """End as the command did, also by its signal: that is what is on record then."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has left its own
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # for a signal that does not end
    os._exit(os.waitstatus_to_exitcode(status))
