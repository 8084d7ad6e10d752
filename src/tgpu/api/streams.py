"""Limits on event streams, and on the loop time of readers of old events."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tgpu.core.errors import RateLimited, SchedulerError
from tgpu.service.identity.caller import Principal

# Of the loop for each event that is sent to somebody who reads old ones. A WebSocket takes some 30
# microseconds to send a message; so all of them together have about a third of the time.
_SECONDS_FOR_AN_EVENT: Final = 0.0001


class TooManyStreams(RateLimited):
    def __init__(self, most: int, setting: str) -> None:
        SchedulerError.__init__(
            self,
            f"{most} streams are open, the maximum ({setting}); close one, or share one stream",
            [{"streams": most, "setting": setting}],
        )
        self.wait_seconds = 5


class Streams:
    """Streams of events and exports of the journal, by caller."""

    def __init__(self, most_of_a_caller: int = 128, most: int = 1024) -> None:
        self._most_of_a_caller = most_of_a_caller
        self._most = most
        self._open: Counter[str] = Counter()
        self._next_at = 0.0

    def check(self, caller: Principal) -> None:
        """TooManyStreams where there is no place for one more."""
        if self._open[caller.actor] >= self._most_of_a_caller:
            raise TooManyStreams(self._most_of_a_caller, "limits.streams_per_caller")
        if self._open.total() >= self._most:
            raise TooManyStreams(self._most, "limits.streams")

    @contextmanager
    def held(self, caller: Principal) -> Iterator[None]:
        self._open[caller.actor] += 1
        try:
            yield
        finally:
            self._open[caller.actor] -= 1
            self._open += Counter()  # forgets those who have none

    async def pace(self, events: int) -> None:
        """Wait until it is this reader's turn to be sent so many old events."""
        now = asyncio.get_running_loop().time()
        begin = max(now, self._next_at)
        self._next_at = begin + events * _SECONDS_FOR_AN_EVENT
        if begin > now:
            await asyncio.sleep(begin - now)
