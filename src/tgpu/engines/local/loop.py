"""The supervisor's single thread: readiness of descriptors, ends of processes, and timers."""

import heapq
import itertools
import os
import selectors
from collections.abc import Callable

from tgpu.engines.local.descriptors import is_scarce
from tgpu.engines.local.processes import CannotTell, is_alive
from tgpu.engines.local.steady import boottime

Callback = Callable[[], None]

# How long until the kernel is asked again what it did not tell.
ASK_AGAIN_SECONDS = 0.5
# The last descriptors are for what cannot do without: runners, files, clients.
_RESERVE = 128
# So late a time limit may strike that passed while the machine slept.
_LONGEST_SLEEP_SECONDS = 60.0


class Timer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callback) -> None:
        self.callback: Callback | None = callback


class Loop:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._cancelled = 0
        self._said = ""

    def watch(self, fd: int, callback: Callback, events: int = selectors.EVENT_READ) -> None:
        """Call back whenever the descriptor is ready; a second call changes the events."""
        if fd in self._selector.get_map():
            self._selector.modify(fd, events, callback)
        else:
            self._selector.register(fd, events, callback)

    def unwatch(self, fd: int) -> None:
        self._selector.unregister(fd)

    def watch_process(self, pid: int, start: int, callback: Callback) -> None:
        """Call back once, when this process (not ours to wait for) is over."""
        fd = _descriptor_of(pid)
        try:
            # Asked after opening: from here on the descriptor means this process.
            is_over = not is_alive(pid, start)
        except CannotTell:
            is_over = False
            fd = _let_go(fd)  # it may be another process's
        if is_over:
            _let_go(fd)
            self.call_later(0, callback)
        elif fd is None or not self._register(fd, callback):
            # By pid and start time then, until there is a descriptor for it.
            self.call_later(ASK_AGAIN_SECONDS, lambda: self.watch_process(pid, start, callback))

    def _register(self, fd: int, callback: Callback) -> bool:
        def over() -> None:
            self._selector.unregister(fd)
            os.close(fd)
            callback()

        try:
            self._selector.register(fd, selectors.EVENT_READ, over)
        except OSError:  # the kernel limits these as well
            os.close(fd)
            return False
        return True

    def when_known(self, call: Callback) -> None:
        """Call now; again later for as long as the kernel does not tell what it asks for."""
        try:
            call()
        except CannotTell as error:
            self._say(str(error))
            self.call_later(ASK_AGAIN_SECONDS, lambda: self.when_known(call))

    def _say(self, trouble: str) -> None:
        if trouble != self._said:  # once, and not twice a second
            os.write(2, f"{trouble}; asked again later\n".encode(errors="replace"))
        self._said = trouble

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (boottime() + seconds, next(self._order), timer))
        return timer

    def cancel(self, timer: Timer) -> None:
        timer.callback = None
        self._cancelled += 1
        # Most time limits never strike: without this, the limits of the jobs of a whole day
        # would pile up.
        if self._cancelled > 100 and self._cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2].callback is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def turn(self, *, wait: bool) -> None:
        """Handle everything that is ready or due; with `wait`, sleep until something is."""
        for key, _ in self._selector.select(self._timeout() if wait else 0):
            if key.fd in self._selector.get_map():  # else unwatched earlier in this turn
                key.data()
        now = boottime()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                callback, timer.callback = timer.callback, None
                callback()

    def _timeout(self) -> float | None:
        if not self._timers:
            return None
        # Rounded up to a millisecond, as epoll counts: else it wakes early and finds nothing due.
        # epoll's own clock stands still while the machine sleeps, ours does not.
        left = self._timers[0][0] - boottime() + 0.001
        return min(max(0.0, left), _LONGEST_SLEEP_SECONDS)


def _descriptor_of(pid: int) -> int | None:
    """None where there is no such process, or where no descriptor is to be had."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    return _let_go(fd) if is_scarce(fd, _RESERVE) else fd


def _let_go(fd: int | None) -> int | None:
    if fd is not None:
        os.close(fd)
    return None
