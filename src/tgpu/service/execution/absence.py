"""Attempts that should run but that the engine no longer reports: absence is no proof of an end.

Absence is not an end. After it has lasted for a while the engine is told to stop the attempt: its
answer proves that it does not run and never will, and is what ends it here.
"""

from collections.abc import Iterable
from typing import Final

from tgpu.engines.api import AttemptKey

# On the job while the engine is asked: what it answers then is no cancel of anybody's.
ABSENT: Final = "the engine no longer knows it; checking whether it still runs"

_LOOKS: Final = 3


class Absences:
    def __init__(self, seconds: float) -> None:
        """Missing without a break for so long, and at three looks at least, is absent."""
        self._seconds = seconds
        self._since: dict[AttemptKey, tuple[float, int]] = {}

    def absent(self, missing: Iterable[AttemptKey], now: float) -> list[AttemptKey]:
        """Of those that are missing now, which have been for long enough."""
        before, self._since = self._since, {}
        found = []
        for key in missing:
            since, looks = before.get(key, (now, 0))
            self._since[key] = since, looks + 1
            if looks + 1 >= _LOOKS and now - since >= self._seconds:
                found.append(key)
        return found
