"""Unauthenticated calls: counted, and summed up in a row of the audit log now and then.

A row for each would let whoever reaches a port fill the disk by knocking.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from tgpu.service.recording.audit import Trail
from tgpu.store.api import AuditRow
from tgpu.telemetry.families import Collector, Metric, counter
from tgpu.text.plurals import plural

_SECONDS: Final = 60.0  # between two rows about strangers, whoever they are


class Refusals(Collector):
    """Of all doors together."""

    def __init__(
        self, seconds: float = _SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._counts: Counter[tuple[str, str]] = Counter()
        self._told_at: float | None = None
        self._untold = 0

    def count(self, door: str, code: str) -> None:
        """A call that was refused at a door ("rest", "grpc", "metrics")."""
        self._counts[door, code] += 1

    def row(self, trail: Trail, code: str, detail: str) -> AuditRow | None:
        """About a stranger's call that would have changed something; None: it is only counted."""
        now = self._clock()
        if self._told_at is not None and now - self._told_at < self._seconds:
            self._untold += 1
            return None
        before, self._untold, self._told_at = self._untold, 0, now
        calls = plural(before, "call")
        more = f" (and {calls} of strangers more since the last such row)" if before else ""
        return trail.row(code, f"{detail[:200]}{more}")

    def collect(self) -> Iterator[Metric]:
        yield counter(
            "refused_calls",
            "Calls that were refused before it was known whose they were, or as too many.",
            {key: float(count) for key, count in self._counts.items()},
            ("door", "code"),
        )
