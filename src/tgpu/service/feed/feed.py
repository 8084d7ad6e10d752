"""The feed: every recorded change for those who watch, in the journal's own numbers.

The newest changes are in a bounded ring that all readers share; older ones are read from the
store's journal. A reader is a position, not a queue: publishing costs the same however many read,
and one that falls out of the ring after it had caught up is dropped, so that nobody can slow the
service down. It may come back with its position and misses nothing.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import TracebackType
from typing import Final, Self

from tgpu.core.errors import Conflict, InvalidRequest, Unavailable
from tgpu.core.model.events import Event, JobMoved, JobsSubmitted
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.preemption.cause import whose
from tgpu.core.state.cluster_state import State
from tgpu.service.feed.feed_event import UNKNOWN, FeedEvent, JobRef, Whose, feed_event, other_in
from tgpu.service.feed.pages import JournalPages
from tgpu.service.identity.ownership import SEES_ALL, Look, Sight
from tgpu.store.api import DecisionId, Store

# Changes that a caught-up reader may be behind, counted in jobs: ten seconds of a busy service,
# and some ten megabytes where all of them are bulk submissions.
RING_JOBS: Final = 50_000
# The same counted in events: one that stands alone takes 1.4 kB with its words, seventeen
# megabytes in all. A service with 500 clients has some 400 a second.
RING_EVENTS: Final = 12_000
# A reader that takes nothing for this long is gone, or might as well be.
STALL_SECONDS: Final = 30.0
_CHUNK: Final = 256  # events that a reader takes out of the ring at once
_CUT: Final = 1_000  # events that are gone, before their memory is given back
_PAGE: Final = 500  # rows of the journal about one job that a reader loads at once
_HEAP: Final = 5_000  # jobs, of bulk submissions, that are looked at without a pause
_MOST_ASIDES: Final = 1_000  # of what is not recorded: whoever is slow misses the oldest


class SlowReader(Unavailable):
    """The reader fell too far behind. It can go on from `position`: up to there it took everything.

    The event that it was just being given may have reached it or not, and is behind that.
    """

    def __init__(self, position: int) -> None:
        super().__init__(
            f"too slow: the events after {position} were not taken in time; "
            f"connect again with after={position}",
            [{"after": position}],
        )
        self.position = position


class EventsGone(Conflict):
    """What the reader wants to go on from is no longer, or not yet, in the journal."""

    def __init__(self, after: int, oldest: int, newest: int) -> None:
        super().__init__(
            f"the events after {after} are not here: there are {oldest} to {newest}; "
            "read the jobs anew and follow from the newest event",
            [{"after": after, "oldest": oldest, "newest": newest}],
        )


@dataclass(slots=True)
class _Entry:
    """A recorded event; it is put in words when the first reader asks."""

    seq: int
    event: Event
    mover: Whose  # whose job moved: the state forgets jobs that are over
    other: TenantId | None  # the tenant of the one that it is preempted for
    decision: DecisionId | None = None
    words: FeedEvent | None = None

    @property
    def weight(self) -> int:
        return len(self.event.jobs) if isinstance(self.event, JobsSubmitted) else 1

    def told(self) -> FeedEvent | None:
        if self.words is None:
            self.words = feed_event(self.seq, self.event, self.mover, self.other, self.decision)
        return self.words


class Feed:
    def __init__(
        self,
        state: State,
        store: Store,
        *,
        ring_jobs: int = RING_JOBS,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._state = state
        self._store = store
        self._ring = _Ring(ring_jobs)
        self.pages = JournalPages(state, store)
        self.stall_seconds = stall_seconds
        self.last_seq = 0  # the newest event that was published
        self.closed = False
        self._changed = asyncio.Event()
        self._guarded: set[Subscription] = set()

    @property
    def floor(self) -> int:
        """Everything after this number is in the ring."""
        return self._ring.floor

    @property
    def watchers(self) -> int:
        """Readers inside `async with`."""
        return len(self._guarded)

    def open(self, last_seq: int) -> None:
        """Begin behind what is in the journal already."""
        self.last_seq = self._ring.floor = last_seq

    def publish(
        self, events: Sequence[Event], last_seq: int, decisions: Sequence[DecisionId] = ()
    ) -> None:
        """The events of one commit, before they are applied: `last_seq` is the last one's."""
        first_seq = last_seq - len(events) + 1
        self._ring.add(
            [
                _Entry(seq, event, self._mover(event, events), self._other(event), decision)
                for seq, (event, decision) in enumerate(zip_longest(events, decisions), first_seq)
            ]
        )
        self.last_seq = last_seq
        self._wake()
        for subscription in list(self._guarded):
            subscription.check()

    def tell(self, events: Sequence[FeedEvent]) -> None:
        """What is not recorded, to those who watch at this moment: nobody can come back for it."""
        for subscription in self._guarded:
            subscription.hear(events)
        self._wake()

    def subscribe(
        self,
        after: int | None = None,
        *,
        job_id: JobId | None = None,
        tenant_ids: Collection[TenantId] | None = None,
        look: Look | None = None,
        asides: bool = False,
    ) -> "Subscription":
        """Every change after number `after` (None: from now on), oldest first, without end.

        `tenant_ids` None is everybody's; `look` tells what the reader may see, and is asked for
        each batch. `asides` are what is not recorded too: each has the number of the change before
        it. Inside `async with`, a reader that is stuck is also interrupted with SlowReader;
        without, it learns of it when it asks for the next event.
        """
        if after is not None and after < 0:
            raise InvalidRequest("after", after, "a sequence number is 0 or more")
        if after is not None and after > self.last_seq:
            # The journal is not the one that the number came from: waiting would skip events.
            raise EventsGone(after, min(1, self.last_seq), self.last_seq)
        position = self.last_seq if after is None else after
        wanted = _Filter(job_id, look or _fixed(tenant_ids))
        return Subscription(self, position, wanted, asides=asides)

    async def history(
        self,
        job_id: JobId,
        after: int,
        limit: int,
        look: Look | None = None,
    ) -> list[FeedEvent]:
        """What the journal has about one job behind number `after`, oldest first."""
        told = await self.pages.told(await self._store.journal(after, limit, job_id))
        return _Filter(job_id, look or _fixed(None)).seen(told)

    def close(self) -> None:
        """End all subscriptions after what was published."""
        self.closed = True
        self._wake()

    def _mover(self, event: Event, commit: Sequence[Event]) -> Whose:
        """Whose job moved."""
        if not isinstance(event, JobMoved):
            return UNKNOWN
        known = self._state.entry(event.job_id)
        if known is not None:
            return Whose(known.job.tenant_id, known.job.options.user)
        new = (job for each in commit if isinstance(each, JobsSubmitted) for job in each.jobs)
        mine = (Whose(j.tenant_id, j.options.user) for j in new if j.job_id == event.job_id)
        return next(mine, UNKNOWN)

    def _other(self, event: Event) -> TenantId | None:
        """The job or the reservation that it is preempted for."""
        named = other_in(event)
        return None if named is None else whose(self._state, named)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # -- for the subscriptions -----------------------------------------------------------------

    async def changed(self) -> None:
        await self._changed.wait()

    def recent(self, after: int) -> tuple[list[FeedEvent], int]:
        """Some events of the ring behind `after`, and the number up to which these are all."""
        entries = self._ring.after(after, _CHUNK)
        read_to = entries[-1].seq if len(entries) == _CHUNK else self.last_seq
        return [told for entry in entries if (told := entry.told()) is not None], read_to

    async def older(self, after: int, job_id: JobId | None) -> tuple[Sequence[FeedEvent], int]:
        """The same from the journal. EventsGone where it no longer reaches back so far."""
        # Read before the journal is: a row may be there before it is published here, and would
        # come a second time from the ring.
        newest = self.last_seq
        if job_id is not None:
            return await self._older_of(job_id, after, newest)
        page = await self.pages.page(after, newest)
        # "All that is kept" is what 0 asks for. The stores number their rows without holes.
        if after and page.first_seq is not None and page.first_seq > after + 1:
            raise EventsGone(after, page.first_seq, self.last_seq)
        return page.after(after), min(page.read_to, self.last_seq)

    async def _older_of(
        self, job_id: JobId, after: int, newest: int
    ) -> tuple[Sequence[FeedEvent], int]:
        rows = await self._store.journal(after, _PAGE, job_id)
        first = await self._store.journal(after, 1) if after else []
        if first and first[0].seq > after + 1:
            raise EventsGone(after, first[0].seq, self.last_seq)
        read_to = min(rows[-1].seq, newest) if len(rows) == _PAGE else newest
        return await self.pages.told([row for row in rows if row.seq <= read_to]), read_to

    def guard(self, subscription: "Subscription", *, on: bool) -> None:
        (self._guarded.add if on else self._guarded.discard)(subscription)


class Subscription(AsyncIterator[FeedEvent]):
    """One reader. `position` is the number it can go on from when it comes back."""

    def __init__(
        self, feed: Feed, position: int, wanted: "_Filter", *, asides: bool = False
    ) -> None:
        self.position = position
        self._feed = feed
        self._wanted = wanted
        self._taken = position  # the same without the event that the reader has in its hands
        self._read_to = position  # what is behind this was not even looked at
        self._ready: deque[FeedEvent] = deque()
        self._asides: deque[FeedEvent] = deque(maxlen=_MOST_ASIDES if asides else 0)
        self._caught_up = False  # only then can it be slow: until then it reads at its own pace
        self._guard: asyncio.Timeout | None = None
        self._asking = False

    async def __aenter__(self) -> Self:
        self._guard = asyncio.timeout(None)
        await self._guard.__aenter__()
        self._feed.guard(self, on=True)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._guard is not None
        self._feed.guard(self, on=False)
        try:
            await self._guard.__aexit__(kind, error, trace)
        except TimeoutError:  # the guard's own: one of the body's passes through it
            raise SlowReader(self._taken) from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FeedEvent:
        self._asking = True
        self._give_until(None)
        while not self._ready:
            self.position = self._read_to
            if self._asides:
                return self._aside()
            if self._feed.closed and self._read_to >= self._feed.last_seq:
                raise StopAsyncIteration
            await self._fetch()
        event = self._ready.popleft()
        self._taken = self.position
        self.position = event.seq
        self._handed_over()
        return event

    def hear(self, events: Sequence[FeedEvent]) -> None:
        """What is not recorded, as far as this reader may and wants to see it."""
        self._asides.extend(self._wanted.seen(events))

    def _aside(self) -> FeedEvent:
        """It has the number of what came before it: from there one can go on."""
        event = replace(self._asides.popleft(), seq=self.position)
        self._taken = self.position
        self._handed_over()
        return event

    def _handed_over(self) -> None:
        self._asking = False
        self._give_until(asyncio.get_running_loop().time() + self._feed.stall_seconds)

    async def batch(self) -> list[FeedEvent]:
        """Some of what is ready, at least one event; none at the end."""
        first = await anext(self, None)
        if first is None:
            return []
        events, weight = [first], 1 + len(first.jobs)
        while self._ready and len(events) < _CHUNK and weight < _HEAP:
            events.append(self._ready.popleft())
            weight += 1 + len(events[-1].jobs)
        self.position = events[-1].seq
        return events

    @property
    def is_behind(self) -> bool:
        """Whether there is a good deal that it has not been told yet."""
        return self._feed.last_seq - self.position > _CHUNK

    def check(self) -> None:
        """Interrupt a reader that is stuck with an event while the ring moved past it."""
        if self._is_slow() and not self._asking:
            self._give_until(asyncio.get_running_loop().time())

    def _is_slow(self) -> bool:
        return self._caught_up and self._read_to < self._feed.floor

    async def _fetch(self) -> None:
        feed = self._feed
        if self._is_slow():
            raise SlowReader(self.position)
        if self._read_to < feed.floor:
            events, read_to = await feed.older(self._read_to, self._wanted.job_id)
        else:
            self._caught_up = True
            if self._read_to == feed.last_seq:
                await feed.changed()
                return
            events, read_to = feed.recent(self._read_to)
        await self._take_in(events)
        self._read_to = read_to

    async def _take_in(self, events: Sequence[FeedEvent]) -> None:
        """What of them is for this reader. Others are served between two heaps of jobs."""
        weight = 0
        seen_events = []
        sight = self._wanted.look()
        for event in events:
            seen = self._wanted.seen_one(event, sight)
            if seen is not None:
                seen_events.append(seen)
            weight += 1 + len(event.jobs)
            if weight >= _HEAP:
                weight = 0
                await asyncio.sleep(0)
        self._ready.extend(seen_events)

    def _give_until(self, when: float | None) -> None:
        if self._guard is not None and not self._guard.expired():
            self._guard.reschedule(when)


@dataclass(frozen=True, slots=True)
class _Filter:
    job_id: JobId | None
    look: Look

    def seen(self, events: Iterable[FeedEvent]) -> list[FeedEvent]:
        """What of these this reader may and wants to see."""
        sight = self.look()
        found = (self.seen_one(event, sight) for event in events)
        return [event for event in found if event is not None]

    def seen_one(self, event: FeedEvent, sight: Sight) -> FeedEvent | None:
        if self.job_id is None and sight.tenants is None and not sight.own_only:
            return event
        if event.jobs:
            return _narrowed(event, tuple(ref for ref in event.jobs if self._takes(*ref, sight)))
        if event.job_id is None:
            return event if self.job_id is None and sight.sees_tenant(event.tenant_id) else None
        if not self._takes(event.job_id, event.tenant_id, event.user, sight):
            return None
        hides = not sight.sees_tenant(event.other) or event.other in sight.own_only
        return event.without_other() if hides and event.names_another else event

    def _takes(
        self, job_id: JobId | None, tenant_id: TenantId | None, user: str, sight: Sight
    ) -> bool:
        return (self.job_id is None or job_id == self.job_id) and sight.sees(tenant_id, user)


def _fixed(tenant_ids: Collection[TenantId] | None) -> Look:
    sight = SEES_ALL if tenant_ids is None else Sight(frozenset(tenant_ids))
    return lambda: sight


def _narrowed(event: FeedEvent, jobs: tuple[JobRef, ...]) -> FeedEvent | None:
    if not jobs:
        return None
    if len(jobs) > 1:
        return replace(event, jobs=jobs, data={"count": len(jobs)})
    (ref,) = jobs
    return replace(
        event, job_id=ref.job_id, tenant_id=ref.tenant_id, user=ref.user, jobs=(), data={}
    )


class _Ring:
    """The newest entries, oldest first. Never drops what the last commit brought."""

    def __init__(self, capacity: int) -> None:
        self.floor = 0
        self._capacity = capacity
        self._weight = 0
        self._entries: list[_Entry] = []
        self._seqs: list[int] = []
        self._start = 0  # what is before is gone; cut off from time to time

    def add(self, entries: Sequence[_Entry]) -> None:
        keep_from = len(self._entries)
        for entry in entries:
            self._entries.append(entry)
            self._seqs.append(entry.seq)
            self._weight += entry.weight
        while self._start < keep_from and self._is_too_full():
            gone = self._entries[self._start]
            self.floor = gone.seq
            self._weight -= gone.weight
            self._start += 1
        if self._start >= _CUT:
            del self._entries[: self._start], self._seqs[: self._start]
            self._start = 0

    def _is_too_full(self) -> bool:
        return self._weight > self._capacity or len(self._entries) - self._start > RING_EVENTS

    def after(self, seq: int, limit: int) -> list[_Entry]:
        first = max(self._start, bisect_right(self._seqs, seq))
        return self._entries[first : first + limit]
