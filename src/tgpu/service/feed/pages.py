"""Pages of events for watchers, built once for all readers of the same place.

Forty readers that begin at the same place cost what one does: a page is read from the store,
decoded and put in words once, in a thread of its own, one page at a time, and kept while others
may come by.
"""

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from tgpu.core.model.events import Event, JobMoved
from tgpu.core.model.ids import JobId
from tgpu.core.preemption.cause import whose
from tgpu.core.state.cluster_state import State
from tgpu.service.feed.feed_event import UNKNOWN, FeedEvent, Whose, feed_event, other_in
from tgpu.store.api import JobQuery, JournalRow, Store
from tgpu.store.event_codec import decode_event

# Rows of a page, and of one read for it: a bulk submission is a row of a megabyte.
ROWS: Final = 128
_STEP: Final = 32
# Events that are kept, with each job of a bulk submission counted: some thirty megabytes.
_MOST_KEPT: Final = 20_000


@dataclass(frozen=True, slots=True)
class Page:
    events: tuple[FeedEvent, ...]
    first_seq: int | None  # of the first row that the store has, from where the page begins
    read_to: int  # there is nothing else up to this number

    @property
    def weight(self) -> int:
        return sum(1 + len(event.jobs) for event in self.events)

    def after(self, seq: int) -> Sequence[FeedEvent]:
        return self.events[bisect_right(self.events, seq, key=lambda event: event.seq) :]


class JournalPages:
    def __init__(self, state: State, store: Store) -> None:
        self._state = state
        self._store = store
        self._kept: OrderedDict[int, Page] = OrderedDict()
        self._weight = 0
        self._making: dict[int, asyncio.Task[Page]] = {}
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "feed-pages")
        self.made = 0  # pages that were read and decoded

    async def page(self, after: int, newest: int) -> Page:
        """What goes on after a number, which is below `newest`: the last row that may be told."""
        number = after // ROWS
        while True:
            kept = self._kept.get(number)
            if kept is not None and kept.read_to > after:
                self._kept.move_to_end(number)
                return kept
            making = self._making.get(number)
            # One that is done is still here until the loop comes to its callback. It does not wait
            # for anything, so asking it again and again would keep the loop from ever going there.
            if making is None or making.done():
                last = min((number + 1) * ROWS, newest)
                making = self._making[number] = asyncio.create_task(self._make(number, last))
                making.add_done_callback(lambda done: self._drop(number, done))
            # One reader that goes away must not take the page from the others.
            page = await asyncio.shield(making)
            if page.read_to > after:
                return page  # else it was begun before there was more, and is made anew

    def _drop(self, number: int, made: asyncio.Task[Page]) -> None:
        if self._making.get(number) is made:
            del self._making[number]

    async def told(self, rows: Sequence[JournalRow]) -> list[FeedEvent]:
        """Rows in words. Decoded in the thread; the state is asked on the loop, which owns it."""
        loop = asyncio.get_running_loop()
        events = await loop.run_in_executor(self._thread, _decoded, rows)
        movers = [event.job_id for _, event in events if isinstance(event, JobMoved)]
        others = [named for _, event in events if (named := other_in(event)) is not None]
        whose_jobs = await self._whose([*movers, *others])
        return await loop.run_in_executor(self._thread, _in_words, events, whose_jobs)

    async def _make(self, number: int, last: int) -> Page:
        async with self._turn:
            # The newest page grows with every commit: what it has is not made again for each.
            begun = self._kept.get(number)
            rows, first_seq = await self._rows(begun.read_to if begun else number * ROWS, last)
            self.made += 1
            read_to = last
            if not rows and first_seq is not None:
                read_to = first_seq - 1  # what is before that is no longer kept
            events = tuple(await self.told(rows))
            if begun is not None and begun.first_seq is not None:
                events, first_seq = begun.events + events, begun.first_seq
            page = Page(events, first_seq, read_to)
        self._keep(number, page)
        return page

    async def _rows(self, position: int, last: int) -> tuple[list[JournalRow], int | None]:
        rows = list[JournalRow]()
        first_seq: int | None = None
        while position < last:
            some = await self._store.journal(position, min(_STEP, last - position))
            if not some:
                break
            first_seq = some[0].seq if first_seq is None else first_seq
            rows += [row for row in some if row.seq <= last]
            position = some[-1].seq
        return rows, first_seq

    def _keep(self, number: int, page: Page) -> None:
        before = self._kept.pop(number, None)
        self._kept[number] = page
        self._weight += page.weight - (before.weight if before is not None else 0)
        while self._weight > _MOST_KEPT and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._weight -= gone.weight

    async def _whose(self, job_ids: Sequence[JobId]) -> dict[JobId, Whose]:
        found: dict[JobId, Whose] = {}
        over: dict[JobId, None] = {}
        for job_id in job_ids:
            entry = self._state.entry(job_id)
            if entry is None:
                over[job_id] = None
            else:
                found[job_id] = Whose(entry.job.tenant_id, entry.job.options.user)
        if over:
            query = JobQuery(job_ids=tuple(over), limit=len(over))
            for stored in await self._store.jobs(query):
                job = stored.job
                found[job.job_id] = Whose(job.tenant_id, job.options.user)
        for job_id in over:
            named = None if job_id in found else whose(self._state, job_id)
            if named is not None:
                found[job_id] = Whose(named)
        return found


def _decoded(rows: Sequence[JournalRow]) -> list[tuple[JournalRow, Event]]:
    return [(row, decode_event(row.kind, row.payload)) for row in rows]


def _in_words(
    events: Sequence[tuple[JournalRow, Event]], whose_jobs: dict[JobId, Whose]
) -> list[FeedEvent]:
    told = []
    for row, event in events:
        mover = whose_jobs.get(event.job_id, UNKNOWN) if isinstance(event, JobMoved) else UNKNOWN
        named = other_in(event)
        other = UNKNOWN if named is None else whose_jobs.get(named, UNKNOWN)
        words = feed_event(row.seq, event, mover, other.tenant_id, row.decision)
        if words is not None:
            told.append(words)
    return told
