"""The supervisor's single thread: readiness of descriptors, ends of processes, and timers."""

import heapq
import itertools
import os
import selectors
import time
from collections.abc import Callable

from gpu_scheduler.engines.local.processes import start_time

Callback = Callable[[], None]


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
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            self.call_later(0, callback)
            return
        if start_time(pid) != start:
            os.close(fd)
            self.call_later(0, callback)
            return

        def over() -> None:
            self._selector.unregister(fd)
            os.close(fd)
            callback()

        self._selector.register(fd, selectors.EVENT_READ, over)

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), timer))
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
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                callback, timer.callback = timer.callback, None
                callback()

    def _timeout(self) -> float | None:
        if not self._timers:
            return None
        # Rounded up to a millisecond, as epoll counts: else it wakes early and finds nothing due.
        return max(0.0, self._timers[0][0] - time.monotonic() + 0.001)
