"""The service as a whole: ticks, leases, waiters, loops that outlive mistakes."""

import asyncio
import logging
import time

import pytest

from tests.unit.service.eventually import eventually
from tests.unit.service.world import FailingStore, a_box, a_submission
from tgpu.core.errors import Conflict, NotFound, Unavailable
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Options
from tgpu.core.model.lifecycle import JobState
from tgpu.engines.fake import FakeEngine
from tgpu.service.recording.clock import WallClock
from tgpu.store.memory import MemoryStore

# -- ticks -------------------------------------------------------------------------------------


async def test_on_the_manual_clock_nothing_happens_until_a_tick() -> None:
    async with a_box(leases=True) as box:
        await box.submit(a_submission(job_id="j"))
        await asyncio.sleep(0.1)  # twice the interval of a cycle
        assert await box.state_of("j") is JobState.PENDING
        assert await box.tick(5) == ["j"]
        assert (await box.service.job("j")).progress.started_at == 5


async def test_a_tick_on_the_wall_s_clock_is_refused() -> None:
    async with a_box(leases=True, clock=WallClock()) as box:
        with pytest.raises(Conflict, match=r"scheduler\.clock"):
            await box.service.tick(5)


async def test_on_the_wall_s_clock_jobs_start_by_themselves() -> None:
    async with a_box(leases=True, clock=WallClock()) as box:
        await box.submit(a_submission(job_id="j"))
        await box.until("j", JobState.RUNNING)


async def test_ids_sort_starts_that_are_equal_otherwise() -> None:
    async with a_box(leases=True) as box:
        for name in ("b", "a", "c"):
            await box.submit(a_submission(job_id=name))
        assert await box.tick(1) == ["a", "b", "c"]


async def test_a_tick_that_cannot_be_recorded_starts_nothing() -> None:
    store = FailingStore()
    async with a_box(leases=True, store=store) as box:
        await box.submit(a_submission(job_id="j"))
        store.broken = "no space left on the device"
        with pytest.raises(Unavailable):
            await box.tick(1)
        assert box.service.problems() == ["store: no space left on the device"]
        store.broken = None
        assert await box.tick(2) == ["j"]
        assert box.service.problems() == []


# -- leases ------------------------------------------------------------------------------------


async def test_a_lease_ends_when_its_time_is_up_and_its_gpus_go_to_the_next() -> None:
    async with a_box(leases=True, gpus="sim:1xA100") as box:
        await box.submit(a_submission(job_id="a", options=Options(time_limit_ms=10_000)))
        await box.submit(a_submission(job_id="b"))
        assert await box.tick(1000) == ["a"]
        assert await box.tick(10_999) == []
        assert await box.tick(11_000) == ["b"]
        progress = (await box.service.job("a")).progress
        assert (progress.state, progress.cause) == (JobState.COMPLETED, "its time was up")


async def test_on_the_wall_s_clock_a_lease_ends_without_waiting_for_the_interval() -> None:
    async with a_box(leases=True, clock=WallClock(), interval_seconds=60) as box:
        await box.submit(a_submission(job_id="a", options=Options(time_limit_ms=100)))
        await box.until("a", JobState.COMPLETED)


async def test_a_lease_survives_a_restart_with_its_gpus() -> None:
    store = MemoryStore()
    async with a_box(leases=True, gpus="sim:1xA100", store=store) as box:
        await box.submit(a_submission(job_id="a"))
        await box.tick(1)
    async with a_box(leases=True, gpus="sim:1xA100", store=store) as again:
        await again.submit(a_submission(job_id="b"))
        assert await again.tick(2) == []
        await again.service.jobs.complete(JobId("a"))
        assert await again.tick(3) == ["b"]


# -- waiting for the end -----------------------------------------------------------------------


async def test_who_waits_is_woken_by_the_end_of_the_job() -> None:
    async with a_box() as box:
        await box.submit(a_submission("true", job_id="j"))
        waiters = [
            asyncio.create_task(box.service.wait_until_over(JobId("j"), 30)) for _ in range(3)
        ]
        box.engine.finish(await box.run("j"))
        await asyncio.wait_for(asyncio.gather(*waiters), 5)
        assert await box.state_of("j") is JobState.COMPLETED


async def test_who_waits_for_a_job_that_is_over_does_not_wait() -> None:
    async with a_box() as box:
        await box.submit(a_submission("true", job_id="j"))
        await box.service.jobs.cancel(JobId("j"))
        await asyncio.wait_for(box.service.wait_until_over(JobId("j"), 30), 1)


async def test_waiting_ends_with_its_time_and_leaves_nothing_behind() -> None:
    async with a_box() as box:
        await box.submit(a_submission("true", job_id="j"))
        began = time.monotonic()
        await box.service.wait_until_over(JobId("j"), 0.05)
        assert 0.04 < time.monotonic() - began < 2
        assert box.service._waiters == {}


async def test_one_who_stops_waiting_takes_no_other_along() -> None:
    async with a_box() as box:
        await box.submit(a_submission("true", job_id="j"))
        gone = asyncio.create_task(box.service.wait_until_over(JobId("j"), 30))
        stays = asyncio.create_task(box.service.wait_until_over(JobId("j"), 30))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await box.service.jobs.cancel(JobId("j"))
        await asyncio.wait_for(stays, 5)


async def test_a_requeue_wakes_nobody() -> None:
    async with a_box() as box:
        options = Options(max_retries=1, backoff_ms=0)
        await box.submit(a_submission("true", job_id="j", options=options))
        waiter = asyncio.create_task(box.service.wait_until_over(JobId("j"), 30))
        box.engine.finish(await box.run("j"), 1)
        await box.until("j", JobState.PENDING)
        assert not waiter.done()
        box.engine.finish(await box.run("j", 1), 0)
        await asyncio.wait_for(waiter, 5)


# -- names -------------------------------------------------------------------------------------


async def test_last_is_the_newest_job_also_after_a_restart() -> None:
    store = MemoryStore()
    async with a_box(store=store) as box:
        with pytest.raises(NotFound):
            await box.service.resolve("last")
        await box.submit(a_submission("true", job_id="a"))
        await box.submit(a_submission("true", job_id="b"))
        assert await box.service.resolve("last") == "b"
    async with a_box(store=store) as again:
        assert await again.service.resolve("last") == "b"


async def test_counts_go_on_after_a_restart() -> None:
    store = MemoryStore()
    async with a_box(store=store) as box:
        await box.submit(a_submission("true", job_id="a"))
        await box.submit(a_submission("true", job_id="b"))
        await box.service.jobs.cancel(JobId("a"))
        before = {state: box.service.state.counts[state] for state in JobState}
    async with a_box(store=store) as again:
        assert {state: again.service.state.counts[state] for state in JobState} == before


# -- loops -------------------------------------------------------------------------------------


async def test_a_loop_that_meets_a_bug_is_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0

    async with a_box(leases=True, clock=WallClock()) as box:
        real = box.service._cycle

        async def buggy(now: int) -> object:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise ZeroDivisionError("a bug in the cycle")
            return await real(now)

        monkeypatch.setattr(box.service, "_cycle", buggy)
        caplog.set_level(logging.ERROR)
        await box.submit(a_submission(job_id="j"))
        await box.until("j", JobState.RUNNING)
        assert calls >= 2


async def test_a_store_that_fails_for_a_while_delays_jobs_and_loses_none() -> None:
    store = FailingStore()
    async with a_box(leases=True, clock=WallClock(), store=store, interval_seconds=0.02) as box:
        await box.submit(a_submission(job_id="a"))
        await box.until("a", JobState.RUNNING)
        store.broken = "no space left on the device"
        with pytest.raises(Unavailable):
            await box.submit(a_submission(job_id="b"))
        store.broken = None
        await box.submit(a_submission(job_id="b"))
        await box.until("b", JobState.RUNNING)


async def test_an_end_that_cannot_be_recorded_is_recorded_later() -> None:
    store = FailingStore()
    async with a_box(store=store) as box:
        await box.submit(a_submission("true", job_id="j"))
        key = await box.run("j")
        store.broken = "no space left on the device"
        box.engine.finish(key, 5)
        await eventually(lambda: box.service.problems(), "the trouble")
        assert box.engine.forgotten == []
        store.broken = None
        await box.until("j", JobState.FAILED)
        assert (await box.service.job("j")).progress.exit_code == 5


async def test_close_records_what_was_taken_and_refuses_what_comes_after() -> None:
    store = MemoryStore()
    async with a_box(store=store) as box:
        submits = [asyncio.create_task(box.submit(a_submission("true"))) for _ in range(20)]
        await asyncio.sleep(0)
        service = box.service
    results = await asyncio.gather(*submits, return_exceptions=True)
    taken = {result for result in results if isinstance(result, str)}
    assert await store.known([JobId(job_id) for job_id in taken]) == taken
    with pytest.raises(Unavailable, match="stopping"):
        await service.jobs.submit(a_submission("true"))


async def test_jobs_go_on_when_the_service_closes() -> None:
    engine = FakeEngine()
    async with a_box(engine=engine) as box:
        await box.submit(a_submission("true", job_id="j"))
        await box.run("j")
    assert engine.stopped == []
