"""Who may start on what, decided on an engine that only pretends."""

import pytest

from tests.unit.service.eventually import eventually
from tests.unit.service.world import FailingStore, a_box, a_submission
from tgpu.core.model.lifecycle import JobState
from tgpu.engines.api import Pairing
from tgpu.engines.fake import FakeEngine
from tgpu.service.execution.pairing import NotPaired, take_over
from tgpu.store.api import StoreChanged
from tgpu.store.memory import MemoryStore


class LastingStore(FailingStore):
    is_durable = True


def an_engine() -> FakeEngine:
    engine = FakeEngine()
    engine.paired = Pairing("e" * 32, place="/data")
    return engine


async def test_the_first_time_they_become_a_pair_and_stay_one() -> None:
    store, engine = LastingStore(), an_engine()
    for _ in range(2):
        async with a_box(store=store, engine=engine):
            pass
    assert engine.paired is not None
    assert (await store.documents("pairing"))["database"].decode() == engine.paired.database


async def test_the_mark_is_set_before_anything_is_launched() -> None:
    engine = an_engine()
    marks = []

    class Marked(FakeEngine):
        async def mark(self, seq: int, number: int) -> None:
            marks.append((seq, number, len(self.launched)))
            await super().mark(seq, number)

    engine = Marked()
    engine.paired = Pairing("e" * 32)
    async with a_box(store=LastingStore(), engine=engine) as box:
        await box.submit(a_submission("true"))
        await box.run("1")
        assert marks == [(box.service.feed.last_seq - 1, 1, 0)]


async def test_an_older_database_does_not_start_and_ends_nothing() -> None:
    store, engine = LastingStore(), an_engine()
    async with a_box(store=store, engine=engine) as box:
        await box.submit(a_submission("true", job_id="j"))
        await box.run("j")
    assert engine.paired is not None
    await engine.mark(10_000, 7)
    with pytest.raises(NotPaired, match=r"is older .* jobs run in it: j .*--keep-unknown"):
        async with a_box(store=store, engine=engine):
            pass
    assert engine.stopped == []


async def test_another_database_does_not_start() -> None:
    engine = an_engine()
    async with a_box(store=LastingStore(), engine=engine):
        pass
    with pytest.raises(NotPaired, match=r"is another one .*--end-unknown"):
        async with a_box(store=LastingStore(), engine=engine):
            pass


async def test_another_engine_does_not_start() -> None:
    store = LastingStore()
    async with a_box(store=store, engine=an_engine()):
        pass
    other = FakeEngine()
    other.paired = Pairing("f" * 32, place="/other")
    with pytest.raises(NotPaired, match=r"/data on .* /other is new: .*--take-over"):
        async with a_box(store=store, engine=other):
            pass


async def test_a_database_in_memory_begins_anew_with_numbers_above_the_last() -> None:
    engine = an_engine()
    async with a_box(store=MemoryStore(), engine=engine) as box:
        await box.submit(a_submission("true"))
        key = await box.run("1")
        engine.finish(key, 0)
        await box.until("1", JobState.COMPLETED)
    async with a_box(store=MemoryStore(), engine=engine) as again:
        assert await again.submit(a_submission("true")) == "2"
        await again.run("2")
    with pytest.raises(NotPaired, match="in memory that is gone, and jobs run in it: 2"):
        async with a_box(store=MemoryStore(), engine=engine):
            pass


async def test_a_service_that_is_not_the_writer_any_more_launches_nothing() -> None:
    store, engine = LastingStore(), an_engine()
    async with a_box(store=store, engine=engine) as box:

        async def another_wrote() -> None:
            raise StoreChanged("another service has written")

        await box.submit(a_submission("true", job_id="j"))
        store.ping = another_wrote  # type: ignore[method-assign]  # as if the lock were lost
        await box.tick()
        await eventually(lambda: box.service.problems() != [], "the trouble to be seen")
        assert engine.launched == []


async def test_each_start_has_the_next_epoch_on_record_before_it_acts() -> None:
    store, engine = LastingStore(), an_engine()
    for epoch in (1, 2, 3):
        async with a_box(store=store, engine=engine):
            assert engine.epoch == epoch
            assert (await store.documents("pairing"))["epoch"] == str(epoch).encode()


async def test_a_database_that_is_behind_its_engine_goes_on_above_it() -> None:
    store, engine = LastingStore(), an_engine()
    await engine.open()
    await engine.launch([], epoch=40)
    async with a_box(store=store, engine=engine) as box:
        assert (engine.epoch, (await store.documents("pairing"))["epoch"]) == (41, b"41")
        await box.submit(a_submission("true", job_id="j"))
        await box.run("j")


async def test_a_service_that_was_overtaken_starts_nothing_and_says_so() -> None:
    engine = an_engine()
    async with a_box(store=LastingStore(), engine=engine) as box:
        await box.submit(a_submission("true", job_id="j"))
        await engine.launch([], epoch=99)
        await box.tick(1)
        await eventually(lambda: "taken this engine over" in " ".join(box.service.problems()))
        assert engine.launched == []


async def test_a_start_that_cannot_be_recorded_goes_on_as_the_last_one() -> None:
    store, engine = LastingStore(), an_engine()
    async with a_box(store=store, engine=engine):
        pass
    store.broken = "no room"
    assert await take_over(store, engine) == 1
