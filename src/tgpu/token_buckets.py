"""How often one caller may ask: a bucket of tokens for each, refilled as time passes."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# Callers that are remembered at once; those who have not asked for a while are forgotten first.
_CALLERS: Final = 10_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class TokenBuckets:
    """A bucket of `burst` requests for each caller, refilled at `per_second`; 0 is no limit."""

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, caller: str) -> float:
        """Take one request out of the caller's bucket; the seconds to wait where it is empty."""
        if not self._per_second:
            return 0.0
        now = self._clock()
        bucket = self._buckets.pop(caller, None) or _Bucket(self._burst, now)
        grown = bucket.tokens + (now - bucket.filled_at) * self._per_second
        bucket.tokens = min(float(self._burst), grown)
        bucket.filled_at = now
        self._buckets[caller] = bucket  # at the end: those at the front were used longest ago
        if len(self._buckets) > _CALLERS:
            del self._buckets[next(iter(self._buckets))]
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0.0
        return (1 - bucket.tokens) / self._per_second
