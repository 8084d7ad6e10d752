"""A ring buffer of the newest events, shared by all readers of this process.

As in the service, a reader that the ring has left behind is dropped, and nobody waits for it.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

# Some minutes of a busy service. The stream in Redis is kept as long as its leader's ring.
RING_EVENTS: Final = 10_000
RING_BYTES: Final = 16 << 20
_CHUNK: Final = 256  # events that a reader takes at once


class Event(NamedTuple):
    seq: int
    kind: str
    data: bytes  # JSON, in one line

    def as_sse(self) -> bytes:
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (self.seq, self.kind.encode(), self.data)


class TooSlow(Exception):
    """The reader can go on from `position`: up to there it took everything."""

    def __init__(self, position: int) -> None:
        super().__init__(
            f"too slow: the events after {position} were not taken in time; "
            f"connect again with after={position}"
        )
        self.position = position


class Over(Exception):
    """The ring no longer knows what comes after `position`: the reader must connect again."""

    def __init__(self, position: int) -> None:
        super().__init__(f"connect again with after={position}")
        self.position = position


class Ring:
    def __init__(self, max_events: int = RING_EVENTS, max_bytes: int = RING_BYTES) -> None:
        self.floor: int | None = None  # everything after this is here; None: nothing is known
        self.last = 0
        self.version = 0  # of a row of events without a hole
        self.watchers = 0
        self.reading = b""  # of the GPUs, the newest as JSON
        self.readings = 0
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._bytes = 0
        self._events: list[Event] = []
        self._seqs: list[int] = []
        self._start = 0  # what is before is gone; cut off from time to time
        self._changed = asyncio.Event()

    @property
    def is_open(self) -> bool:
        return self.floor is not None

    def covers(self, after: int) -> bool:
        """Whether a reader who has everything up to `after` can go on here."""
        return self.floor is not None and self.floor <= after <= self.last

    def covers_from(self, floor: int) -> bool:
        """Whether a row of all events behind `floor` can be added without a hole."""
        return self.floor is not None and floor <= self.last

    def open(self, floor: int) -> None:
        """Begin anew: what is added from now on is all that comes after `floor`."""
        self.shut()
        self.floor = self.last = floor

    def shut(self) -> None:
        """What comes after the last event is not known: readers must connect again."""
        self.floor = None
        self.version += 1
        self._events, self._seqs, self._start, self._bytes = [], [], 0, 0
        self._wake()

    def add(self, events: Iterable[Event]) -> None:
        """In their order. One that is here already is not added again."""
        for event in events:
            if event.seq > self.last:
                self._events.append(event)
                self._seqs.append(event.seq)
                self._bytes += len(event.data)
                self.last = event.seq
        self._cut()
        self._wake()

    def add_reading(self, data: bytes) -> None:
        self.reading = data
        self.readings += 1
        self._wake()

    def after(self, position: int) -> list[Event]:
        first = max(self._start, bisect_right(self._seqs, position))
        return self._events[first : first + _CHUNK]

    async def changed(self) -> None:
        await self._changed.wait()

    def _cut(self) -> None:
        while (
            len(self._events) - self._start > self._max_events or self._bytes > self._max_bytes
        ) and self._start < len(self._events) - 1:
            gone = self._events[self._start]
            self.floor = gone.seq
            self._bytes -= len(gone.data)
            self._start += 1
        if self._start > len(self._events) // 2:
            del self._events[: self._start], self._seqs[: self._start]
            self._start = 0

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class RingReader:
    """One who watches, from `after` on. The ring must cover it."""

    def __init__(self, ring: Ring, after: int, *, readings: bool) -> None:
        self.position = after
        self._ring = ring
        self._version = ring.version
        self._wants_readings = readings
        self._readings = ring.readings

    async def next(self) -> tuple[list[Event], bytes]:
        """The next events, and the newest reading where there is a new one. TooSlow, Over."""
        while True:
            ring = self._ring
            if ring.version != self._version or ring.floor is None:
                raise Over(self.position)
            if self.position < ring.floor:
                raise TooSlow(self.position)
            events = ring.after(self.position)
            reading = self._new_reading()
            if events or reading:
                # What it is being given counts as taken when it asks for more; see `taken`.
                return events, reading
            await ring.changed()

    def taken(self, events: list[Event]) -> None:
        if events:
            self.position = events[-1].seq

    def _new_reading(self) -> bytes:
        if not self._wants_readings or self._readings == self._ring.readings:
            return b""
        self._readings = self._ring.readings
        return self._ring.reading
