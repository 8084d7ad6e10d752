"""The service learns what jobs usually ask for, and keeps to what it learnt."""

import asyncio

from tests.builders import a_job
from tests.unit.service.world import a_box
from tgpu.core.model.events import JobsSubmitted, MixSet
from tgpu.core.model.request_profile import FEWEST, RequestProfile, RequestShape
from tgpu.service.recording.clock import WallClock
from tgpu.service.upkeep.request_profiles import MixLearner
from tgpu.store.api import Record
from tgpu.store.event_codec import decode_event
from tgpu.store.memory import MemoryStore

HALVES = RequestProfile(((RequestShape(500), 10_000),))


async def with_jobs(store: MemoryStore, count: int, gpus: float, first: int = 1) -> None:
    jobs = tuple(a_job(str(first + at), gpus=gpus) for at in range(count))
    await store.commit(Record([JobsSubmitted(0, jobs)]))


async def mixes(store: MemoryStore) -> list[RequestProfile]:
    rows = await store.journal(0, 10_000)
    events = [decode_event(row.kind, row.payload) for row in rows if row.kind == "mix_set"]
    return [event.mix for event in events if isinstance(event, MixSet)]


def a_learner(box) -> MixLearner:
    service = box.service
    return MixLearner(service.state, service.store, service.writer, service.clock)


async def test_nothing_is_learnt_from_few_jobs():
    store = MemoryStore()
    async with a_box(store=store) as box:
        await with_jobs(store, FEWEST - 1, 0.5)
        assert not await a_learner(box).look()
        assert box.service.state.ledger.request_profile is None


async def test_what_is_learnt_is_put_on_record_and_holds_after_a_restart():
    store = MemoryStore()
    async with a_box(store=store) as box:
        await with_jobs(store, FEWEST, 0.5)
        assert await a_learner(box).look()
        assert box.service.state.ledger.request_profile == HALVES
        assert not await a_learner(box).look()
    async with a_box(store=store) as box:
        assert box.service.state.ledger.request_profile == HALVES
        assert await mixes(store) == [HALVES]


async def test_it_is_learnt_anew_when_jobs_change():
    store = MemoryStore()
    async with a_box(store=store) as box:
        await with_jobs(store, FEWEST, 0.5)
        await a_learner(box).look()
        await with_jobs(store, FEWEST, 1, first=FEWEST + 1)
        assert await a_learner(box).look()
        assert box.service.state.ledger.request_profile == RequestProfile(
            ((RequestShape(500), 5000), (RequestShape(1000), 5000))
        )


async def test_on_the_wall_clock_it_is_learnt_at_the_start():
    store = MemoryStore()
    async with a_box(store=store):
        await with_jobs(store, FEWEST, 0.5)
    async with a_box(store=store, clock=WallClock()) as box:
        async with asyncio.timeout(20):
            while box.service.state.ledger.request_profile is None:
                await asyncio.sleep(0.02)
