"""The clock of the service: the wall clock, or manual ticks.

Nobody else in the service asks the system for the time of day where a duration comes of it.
"""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    manual: bool

    def now(self) -> int:
        """Milliseconds since the epoch."""

    def steady(self) -> int:
        """Milliseconds since some instant, never set: for what is only measured, and not kept."""


class WallClock:
    manual = False

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def steady(self) -> int:
        return boottime_ms()


def boottime_ms() -> int:
    """Since the machine was started, also while it slept; nobody can set it."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class SteadyClock:
    """The time of day, going on steadily where the wall clock is set, until that is on record.

    NTP speeds the clock of the boot time up and down like the wall's, so the two only part where
    the wall clock was really set. `step_ms` says by how much, and `follow` makes it this clock's
    time.
    """

    manual = False

    def __init__(
        self,
        wall: Callable[[], int] | None = None,
        boottime: Callable[[], int] = boottime_ms,
    ) -> None:
        self._wall = wall or WallClock().now
        self._boottime = boottime
        self.offset_ms = self._wall() - boottime()

    def now(self) -> int:
        return self._boottime() + self.offset_ms

    def steady(self) -> int:
        return self._boottime()

    def step_ms(self) -> int:
        """How far the wall clock was set ahead of this one; negative: back."""
        return self._wall() - self.now()

    def follow(self, by: int) -> None:
        self.offset_ms += by


class ManualClock:
    """Stands still until it is set."""

    manual = True

    def __init__(self) -> None:
        self._now = 0

    def now(self) -> int:
        return self._now

    def steady(self) -> int:
        return self._now

    def set(self, now: int) -> None:
        self._now = now
