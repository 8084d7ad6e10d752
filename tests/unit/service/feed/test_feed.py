"""The feed: nothing is missed, nothing comes twice, nobody slows the service down."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.builders import a_job, a_node, a_queue, a_tenant
from tests.unit.service.world import a_box, a_submission
from tgpu.core.errors import InvalidRequest
from tgpu.core.model import lifecycle
from tgpu.core.model.events import (
    Event,
    JobMoved,
    JobsSubmitted,
    NodeSet,
    QueueRemoved,
    QueueSet,
    TenantSet,
    UsageAdded,
)
from tgpu.core.model.ids import DEFAULT_QUEUE, JobId, TenantId
from tgpu.core.model.lifecycle import PENDING, JobState, Move
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.core.state.cluster_state import State
from tgpu.service.feed import feed as feed_module
from tgpu.service.feed.feed import EventsGone, Feed, SlowReader, Subscription
from tgpu.service.feed.feed_event import KINDS, FeedEvent
from tgpu.service.identity.ownership import Sight
from tgpu.store.api import JournalRow, Record
from tgpu.store.memory import MemoryStore

DEADLINE_SECONDS = 20.0


class World:
    """A store, a state and a feed, and commits as the writer makes them."""

    def __init__(self, ring_jobs: int = 1000, journal_rows: int = 100_000, stall: float = 30.0):
        self.store = MemoryStore(journal_rows)
        self.state = State()
        self.feed = Feed(self.state, self.store, ring_jobs=ring_jobs, stall_seconds=stall)
        self.last_seq = 0

    async def commit(self, *events: Event) -> None:
        self.last_seq = await self.store.commit(Record(events))
        self.feed.publish(events, self.last_seq)
        for event in events:
            self.state.apply(event)

    async def submit(self, *job_ids: str, tenant: str = "default") -> None:
        await self.commit(JobsSubmitted(0, tuple(a_job(j, tenant=tenant) for j in job_ids)))

    async def cancel(self, job_id: str, at: int = 1) -> None:
        ended = lifecycle.end(JobId(job_id), PENDING, JobState.CANCELLED, at, cause="enough")
        await self.commit(JobMoved(at, JobId(job_id), Move.CANCEL, ended))

    async def churn(self, count: int, prefix: str = "c") -> None:
        for number in range(count):
            await self.submit(f"{prefix}{number}")


@pytest.fixture
async def world() -> World:
    made = World()
    await made.commit(TenantSet(0, a_tenant("default")), TenantSet(0, a_tenant("other")))
    return made


async def small_world(**limits: float) -> World:
    made = World(**limits)  # type: ignore[arg-type]  # counts and seconds by name
    await made.commit(TenantSet(0, a_tenant("default")))
    return made


async def take(events: AsyncIterator[FeedEvent], count: int) -> list[FeedEvent]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [await anext(events) for _ in range(count)]


async def rest(world: World, events: Subscription) -> list[FeedEvent]:
    """All that comes until the feed is closed."""
    world.feed.close()
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [event async for event in events]


def numbers(events: Sequence[FeedEvent]) -> list[int]:
    return [event.seq for event in events]


# -- what is told ------------------------------------------------------------------------------


async def test_a_reader_is_told_what_happens_from_now_on(world):
    await world.submit("before")
    events = world.feed.subscribe()
    await world.submit("j1")
    await world.cancel("j1", at=7)
    submitted, cancelled = await take(events, 2)
    assert submitted == FeedEvent(
        4,
        0,
        "job_submitted",
        JobId("j1"),
        TenantId("default"),
        JobState.PENDING,
        {"queue": DEFAULT_QUEUE, "priority": 500, "gpu_count": 1.0},
    )
    assert (cancelled.seq, cancelled.at, cancelled.kind) == (5, 7, "job_cancelled")
    assert (cancelled.job_id, cancelled.tenant_id) == ("j1", "default")
    assert (cancelled.state, cancelled.data) == (JobState.CANCELLED, {"cause": "enough"})


async def test_a_reader_that_waits_is_woken(world):
    waiting = asyncio.create_task(take(world.feed.subscribe(), 1))
    await asyncio.sleep(0)
    await world.submit("j1")
    assert (await waiting)[0].job_id == "j1"


async def test_a_job_that_moves_in_the_commit_that_brings_it_has_its_tenant(world):
    events = world.feed.subscribe()
    ended = lifecycle.end(JobId("j1"), PENDING, JobState.CANCELLED, 1)
    submitted = JobsSubmitted(0, (a_job("j0"), a_job("j1", tenant="other")))
    await world.commit(submitted, JobMoved(1, JobId("j1"), Move.CANCEL, ended))
    assert (await take(events, 2))[1].tenant_id == "other"


async def test_a_bulk_submission_is_one_event_about_many_jobs(world):
    events = world.feed.subscribe()
    await world.submit("a", "b", "c")
    (event,) = await take(events, 1)
    assert (event.job_id, event.data) == (None, {"count": 3})
    assert [ref[:2] for ref in event.jobs] == [(name, "default") for name in "abc"]


async def test_tenants_queues_and_nodes_are_told_and_usage_is_not(world):
    events = world.feed.subscribe()
    await world.commit(
        QueueSet(1, a_queue("night")),
        UsageAdded(1, TenantId("default"), DEFAULT_QUEUE, GpuTimeUsage(1)),
        QueueRemoved(2, TenantId("default"), "night"),
        NodeSet(3, a_node("n1")),
        TenantSet(4, a_tenant("other", gpus=2)),
    )
    told = await rest(world, events)
    assert [(e.seq, e.kind) for e in told] == [
        (3, "queue_changed"),
        (5, "queue_removed"),
        (6, "node_changed"),
        (7, "tenant_changed"),
    ]
    assert {event.kind for event in told} <= set(KINDS)


async def test_every_move_of_a_job_has_a_kind_of_its_own():
    assert len(set(KINDS)) == len(KINDS) == len(Move) + 9


async def test_what_the_journal_tells_is_what_was_told_live(world):
    live = world.feed.subscribe()
    await world.submit("j1")
    await world.submit("a", "b")
    await world.cancel("j1")
    await world.commit(QueueSet(1, a_queue("night")), NodeSet(3, a_node("n1")))
    old = Feed(world.state, world.store)
    old.open(world.last_seq)
    assert await take(old.subscribe(2), 5) == await take(live, 5)


# -- filters -----------------------------------------------------------------------------------


async def test_a_reader_of_one_tenant_is_told_of_no_other(world):
    events = world.feed.subscribe(tenant_ids={TenantId("other")})
    await world.submit("mine", tenant="other")
    await world.submit("yours")
    await world.cancel("yours")
    await world.commit(NodeSet(3, a_node("n1")))
    await world.cancel("mine")
    told = await rest(world, events)
    assert [(e.kind, e.job_id) for e in told] == [
        ("job_submitted", "mine"),
        ("job_cancelled", "mine"),
    ]


async def test_a_bulk_submission_shows_each_tenant_its_own_jobs(world):
    events = world.feed.subscribe(tenant_ids={TenantId("other")})
    jobs = [a_job("a"), a_job("b", tenant="other"), a_job("c", tenant="other"), a_job("d")]
    await world.commit(JobsSubmitted(0, tuple(jobs)))
    await world.commit(JobsSubmitted(0, (a_job("e"), a_job("f", tenant="other"))))
    both, one = await take(events, 2)
    assert ([ref[:2] for ref in both.jobs], both.data) == (
        [("b", "other"), ("c", "other")],
        {"count": 2},
    )
    assert (one.job_id, one.tenant_id, one.jobs) == ("f", "other", ())


async def test_a_reader_is_told_of_their_own_jobs_where_their_tenant_hides_others(world):
    hidden = frozenset({TenantId("default")})
    sights = [Sight(hidden, hidden, "ada")]
    held = lifecycle.hold(JobId("a"), PENDING, True)
    begin, events = world.feed.last_seq, world.feed.subscribe(look=lambda: sights[-1])
    await world.commit(
        JobsSubmitted(0, (a_job("a", user="ada"), a_job("b", user="bob"), a_job("c")))
    )
    await world.commit(JobMoved(1, JobId("b"), Move.HOLD, held))
    await world.commit(JobMoved(1, JobId("a"), Move.HOLD, held))
    first, second = await take(events, 2)
    assert (first.job_id, first.jobs) == ("a", ())
    assert (second.kind, second.job_id) == ("job_held", "a")
    sights.append(Sight(hidden))  # the tenant shows them from now on
    await world.commit(JobMoved(2, JobId("b"), Move.HOLD, held))
    (third,) = await take(events, 1)
    assert third.job_id == "b"
    again = world.feed.subscribe(begin, look=lambda: sights[0])
    assert [event.job_id for event in await take(again, 2)] == ["a", "a"]
    old = Feed(world.state, world.store, ring_jobs=1)
    old.open(world.feed.last_seq)
    assert [e.job_id for e in await take(old.subscribe(begin, look=lambda: sights[0]), 2)] == [
        "a",
        "a",
    ]


async def test_a_reader_of_one_job_is_told_of_no_other(world):
    events = world.feed.subscribe(job_id=JobId("b"))
    await world.submit("a", "b")
    await world.submit("c")
    await world.cancel("a")
    await world.cancel("b")
    told = await rest(world, events)
    assert [(e.kind, e.job_id) for e in told] == [("job_submitted", "b"), ("job_cancelled", "b")]


async def test_a_job_of_another_tenant_shows_nothing(world):
    await world.submit("yours")
    await world.cancel("yours")
    wanted = {"job_id": JobId("yours"), "tenant_ids": {TenantId("other")}}
    assert await rest(world, world.feed.subscribe(0, **wanted)) == []


async def test_the_history_of_a_job_that_is_over_comes_from_the_journal(world):
    await world.submit("a", "b")
    await world.cancel("b")
    old = Feed(world.state, world.store)
    old.open(world.last_seq)
    told = await take(old.subscribe(0, job_id=JobId("b")), 2)
    assert [(e.kind, e.tenant_id) for e in told] == [
        ("job_submitted", "default"),
        ("job_cancelled", "default"),
    ]


# -- coming back -------------------------------------------------------------------------------


async def test_a_reader_goes_on_where_it_stopped(world):
    await world.churn(10)
    events = world.feed.subscribe(5)
    assert numbers(await take(events, 7)) == list(range(6, 13))


async def test_older_events_are_read_from_the_journal_and_newer_ones_from_the_ring():
    world = await small_world(ring_jobs=5)
    await world.churn(1200)  # several pages of the journal
    assert world.feed.floor > 1000
    events = world.feed.subscribe(0)
    assert numbers(await take(events, 1201)) == list(range(1, 1202))
    await world.submit("new")
    assert numbers(await take(events, 1)) == [1202]


async def test_what_is_committed_and_not_yet_published_comes_once():
    world = await small_world(ring_jobs=1)
    await world.churn(4)
    events = (JobsSubmitted(0, (a_job("late"),)),)
    seq = await world.store.commit(Record(events))  # the journal is ahead of the feed
    reader = world.feed.subscribe(1)
    assert numbers(await take(reader, 4)) == [2, 3, 4, 5]
    world.feed.publish(events, seq)
    assert numbers(await rest(world, reader)) == [6]


async def test_the_position_says_where_to_go_on_even_if_nothing_was_for_the_reader(world):
    events = world.feed.subscribe(tenant_ids={TenantId("other")})
    waiting = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    await world.churn(3)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert events.position == world.last_seq
    waiting.cancel()


@pytest.mark.parametrize("seed", range(4))
async def test_reconnecting_readers_miss_nothing_and_see_nothing_twice(seed):
    """Readers of random patience, dropped and back again, while events flow."""
    world = await small_world(ring_jobs=20)
    choose = random.Random(seed)
    total = 300
    finished = asyncio.Event()

    async def write() -> None:
        number = 0
        while world.last_seq < total:
            many = choose.choice([1, 1, 1, 2, 30])
            await world.submit(*(f"w{number + n}" for n in range(many)))
            number += many
            if choose.random() < 0.3:
                await asyncio.sleep(0)
            if choose.random() < 0.2:
                await until_one_is_caught_up()  # to be thrown back by what comes at once now
                for _ in range(3):
                    await world.submit(*(f"w{number + n}" for n in range(30)))
                    number += 30
        finished.set()

    async def until_one_is_caught_up() -> None:
        for _ in range(200):
            if any(each._caught_up for each in world.feed._guarded):
                return
            await asyncio.sleep(0.001)

    async def read(patience: random.Random) -> tuple[list[int], int]:
        seen: list[int] = []
        drops = position = 0
        while not (finished.is_set() and position >= world.last_seq):
            subscription = world.feed.subscribe(position)
            try:
                async with subscription:
                    for _ in range(patience.randrange(1, 200)):
                        async with asyncio.timeout(0.2):
                            event = await anext(subscription)
                        seen.append(event.seq)
                        if patience.random() < 0.2:
                            await asyncio.sleep(patience.choice([0, 0.001]))
                position = subscription.position
            except SlowReader as error:
                drops += 1
                position = max(error.position, seen[-1] if seen else 0)
            except TimeoutError:
                position = subscription.position
        return seen, drops

    async with asyncio.timeout(DEADLINE_SECONDS):
        writing = asyncio.create_task(write())
        readers = [asyncio.create_task(read(random.Random(seed * 100 + n))) for n in range(5)]
        outcomes = [await reader for reader in readers]
        await writing
    for seen, _ in outcomes:
        assert seen == list(range(1, world.last_seq + 1))
    assert sum(drops for _, drops in outcomes) > 0  # else this has shown little


async def test_a_number_from_another_journal_is_refused(world):
    with pytest.raises(EventsGone, match=r"after 99 .* there are 1 to 2"):
        world.feed.subscribe(99)


async def test_a_negative_number_is_refused(world):
    with pytest.raises(InvalidRequest, match="after"):
        world.feed.subscribe(-1)


@pytest.mark.parametrize("job_id", [None, JobId("c15")])
async def test_a_reader_is_told_when_the_journal_no_longer_reaches_back(job_id):
    world = await small_world(ring_jobs=2, journal_rows=10)
    await world.churn(20)
    with pytest.raises(EventsGone, match=r"after 3 .* there are 12 to 21"):
        await take(world.feed.subscribe(3, job_id=job_id), 1)


async def test_from_the_beginning_means_all_that_is_kept():
    world = await small_world(ring_jobs=2, journal_rows=10)
    await world.churn(20)
    assert numbers(await take(world.feed.subscribe(0), 10)) == list(range(12, 22))


# -- slow readers ------------------------------------------------------------------------------


async def test_a_reader_that_fell_out_of_the_ring_is_dropped():
    world = await small_world(ring_jobs=10)
    events = world.feed.subscribe()
    await world.churn(5)
    assert numbers(await take(events, 1)) == [2]
    await world.churn(400, prefix="d")
    with pytest.raises(SlowReader, match="connect again with after=") as slow:
        await take(events, 400)
    assert numbers(await take(world.feed.subscribe(slow.value.position), 1)) == [
        slow.value.position + 1
    ]


async def test_a_reader_that_is_stuck_with_an_event_is_interrupted():
    world = await small_world(ring_jobs=10)

    async def read() -> None:
        async with world.feed.subscribe() as events:
            async for _ in events:
                await asyncio.Event().wait()  # a connection that takes nothing

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    await world.churn(400)
    async with asyncio.timeout(DEADLINE_SECONDS):
        with pytest.raises(SlowReader):
            await reading


async def test_a_reader_that_takes_nothing_for_long_is_interrupted_though_nothing_happens():
    world = await small_world(stall=0.02)

    async def read() -> None:
        async with world.feed.subscribe(0) as events:
            async for _ in events:
                await asyncio.Event().wait()

    async with asyncio.timeout(DEADLINE_SECONDS):
        with pytest.raises(SlowReader, match="after=0"):  # the first may not have reached it
            await read()


async def test_a_reader_that_waits_for_events_is_never_stalled():
    world = await small_world(stall=0.02)

    async def read() -> list[FeedEvent]:
        async with world.feed.subscribe() as events:
            return [await anext(events)]

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.1)
    await world.submit("j1")
    assert numbers(await reading) == [2]


async def test_a_reader_that_still_catches_up_is_not_slow():
    world = await small_world(ring_jobs=10)
    await world.churn(600)
    events = world.feed.subscribe(0)
    assert numbers(await take(events, 1)) == [1]
    await world.churn(600, prefix="d")
    assert numbers(await take(events, 1200)) == list(range(2, 1202))


async def test_one_commit_larger_than_the_ring_drops_nobody_who_was_up_to_date():
    world = await small_world(ring_jobs=10)
    events = world.feed.subscribe()
    waiting = asyncio.create_task(take(events, 2))
    await asyncio.sleep(0)
    await world.commit(
        *(JobsSubmitted(0, tuple(a_job(f"{n}-{m}") for m in range(50))) for n in range(2))
    )
    assert [len(event.jobs) for event in await waiting] == [50, 50]


async def test_an_error_of_the_reader_itself_passes_unchanged(world):
    with pytest.raises(TimeoutError):
        async with world.feed.subscribe():
            raise TimeoutError


# -- the end -----------------------------------------------------------------------------------


async def test_a_closed_feed_ends_its_readers_after_what_was_published(world):
    events = world.feed.subscribe()
    await world.churn(3)
    assert numbers(await rest(world, events)) == [3, 4, 5]


async def test_a_new_feed_goes_on_behind_the_journal(world):
    await world.churn(3)
    feed = Feed(world.state, world.store)
    feed.open(world.last_seq)
    assert feed.floor == world.last_seq
    assert numbers(await take(feed.subscribe(3), 2)) == [4, 5]


async def test_readers_cost_the_store_nothing_while_they_keep_up(world):
    class Untouched(MemoryStore):
        async def journal(
            self, after: int, limit: int, job_id: JobId | None = None
        ) -> list[JournalRow]:
            raise AssertionError("the journal was read")

    feed = Feed(world.state, Untouched())
    feed.open(2)
    events = feed.subscribe(2)
    feed.publish([JobsSubmitted(0, (a_job("x"),))], 3)
    assert numbers(await take(events, 1)) == [3]


# -- many at once ------------------------------------------------------------------------------


async def test_a_batch_is_all_that_is_ready(world):
    events = world.feed.subscribe(2)
    await world.churn(5)
    assert numbers(await events.batch()) == [3, 4, 5, 6, 7]
    assert events.position == 7
    await world.submit("next")
    assert numbers(await events.batch()) == [8]


async def test_there_is_no_batch_after_the_end(world):
    events = world.feed.subscribe()
    world.feed.close()
    assert await events.batch() == []


async def test_a_reader_that_is_stuck_with_a_batch_can_have_it_again():
    world = await small_world(ring_jobs=10)
    await world.churn(3)

    async def get_stuck() -> None:
        async with world.feed.subscribe(1) as events:
            assert numbers(await events.batch()) == [2, 3, 4]
            await world.churn(20, "more")
            await asyncio.sleep(DEADLINE_SECONDS)

    with pytest.raises(SlowReader) as caught:
        await get_stuck()
    assert caught.value.position == 1


async def test_events_that_stand_alone_are_bounded_in_number(monkeypatch):
    monkeypatch.setattr(feed_module, "RING_EVENTS", 7)
    world = await small_world(ring_jobs=1000)
    await world.churn(20)
    assert world.last_seq - world.feed.floor == 7
    assert numbers(await take(world.feed.subscribe(0), 21)) == list(range(1, 22))


async def test_what_is_not_recorded_comes_only_to_who_asks_for_it():
    async with a_box() as box:
        feed = box.service.feed
        plain, told = feed.subscribe(), feed.subscribe(asides=True)
        async with plain, told:
            feed.tell([FeedEvent(0, 5, "job_estimated", JobId("j"), TenantId("default"))])
            await box.submit(a_submission(job_id="j"))
            aside, first = await anext(told), await anext(told)
            assert (aside.kind, aside.seq) == ("job_estimated", first.seq - 1)
            assert (await anext(plain)).kind == first.kind == "job_submitted"


async def test_what_is_not_recorded_is_told_by_job_and_tenant_too():
    async with a_box() as box:
        feed = box.service.feed
        async with feed.subscribe(job_id=JobId("j"), asides=True) as told:
            feed.tell(
                [
                    FeedEvent(0, 5, "job_estimated", JobId(name), TenantId("default"))
                    for name in ("other", "j")
                ]
            )
            assert (await anext(told)).job_id == "j"
