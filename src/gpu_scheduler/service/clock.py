"""What time it is for the service: the wall's, or what the caller of a tick says."""

import time
from typing import Protocol


class Clock(Protocol):
    manual: bool

    def now(self) -> int:
        """Milliseconds since the epoch."""


class WallClock:
    manual = False

    def now(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """Stands still until it is set."""

    manual = True

    def __init__(self) -> None:
        self._now = 0

    def now(self) -> int:
        return self._now

    def set(self, now: int) -> None:
        self._now = now
