"""A cancel while the store fails: the engine is told, and the record follows."""

import pytest

from tests.unit.service.eventually import eventually
from tests.unit.service.world import FailingStore, a_box, a_submission
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState
from tgpu.engines.api import EngineUnavailable
from tgpu.store.api import StoreUnavailable


async def test_a_running_job_is_ended_and_recorded_when_the_store_works_again() -> None:
    store = FailingStore()
    async with a_box(store=store) as box:
        await box.submit(a_submission("train", job_id="j"))
        key = await box.run("j")
        store.broken = "the disk is full"
        cancelled = await box.service.cancel(JobId("j"))
        assert cancelled.state is JobState.RUNNING
        assert cancelled.unrecorded is not None
        assert "the disk is full" in cancelled.unrecorded
        assert key in box.engine.stopped
        again = await box.service.cancel(JobId("j"))  # told twice changes nothing
        assert again.unrecorded is not None
        assert any("not recorded yet: 1 (job j)" in p for p in box.service.problems())
        store.broken = None
        await box.until("j", JobState.CANCELLED)
        assert (await box.service.job("j")).progress.attempt == 1
        await eventually(lambda: not any("recorded yet" in p for p in box.service.problems()))


async def test_what_does_not_run_cannot_be_ended_without_a_record() -> None:
    store = FailingStore()
    async with a_box(store=store) as box:
        await box.submit(a_submission("train", job_id="waits"))
        store.broken = "the disk is full"
        with pytest.raises(StoreUnavailable):
            await box.service.cancel(JobId("waits"))
        assert box.engine.stopped == []
        store.broken = None


async def test_where_the_engine_is_away_too_the_caller_is_told_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = FailingStore()
    async with a_box(store=store) as box:
        await box.submit(a_submission("train", job_id="j"))
        await box.run("j")
        store.broken = "the disk is full"

        async def away(*_: object, epoch: int = 0) -> None:
            raise EngineUnavailable("the supervisor does not answer")

        monkeypatch.setattr(box.engine, "stop", away)
        with pytest.raises(StoreUnavailable, match=r"full.*cannot be told.*does not answer"):
            await box.service.cancel(JobId("j"))
        store.broken = None
