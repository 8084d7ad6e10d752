"""Launching, stopping and reconciling through an engine that does what the test says."""

import asyncio

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import Options
from gpu_scheduler.core.lifecycle import JobState
from gpu_scheduler.engines.api import AttemptKey, Observation, Phase
from gpu_scheduler.engines.fake import FakeEngine
from gpu_scheduler.service.attempts import Attempts
from gpu_scheduler.store.memory import MemoryStore
from tests.unit.service.eventually import eventually
from tests.unit.service.world import Box, a_box, a_submission


class SlowEngine(FakeEngine):
    """`observe` answers what it saw, but only when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.answer.set()

    async def observe(self) -> list[Observation]:
        self.asked.set()
        await self.answer.wait()
        return await super().observe()


def attempts(box: Box) -> Attempts:
    found = box.service._attempts
    assert found is not None
    return found


async def test_a_job_goes_through_its_life() -> None:
    async with a_box() as box:
        await box.submit(a_submission("python", "t.py", job_id="j"))
        key = await box.run("j")
        assert [launch.argv for launch in box.engine.launched] == [("python", "t.py")]
        box.engine.finish(key)
        await box.until("j", JobState.COMPLETED)
        await eventually(lambda: box.engine.forgotten == [key], "forgetting")


async def test_a_start_and_an_end_reported_together_are_one_end() -> None:
    async with a_box(engine=FakeEngine(starts=False)) as box:
        await box.submit(a_submission("true", job_id="j"))
        await box.tick()
        await eventually(lambda: box.engine.launched, "the launch")
        key = AttemptKey("j", 1)
        box.engine.start(key)
        box.engine.finish(key, 3)  # before anybody has read that it began
        await box.until("j", JobState.FAILED)
        assert (await box.service.job("j")).progress.exit_code == 3


async def test_a_failed_job_is_tried_again_after_its_back_off() -> None:
    async with a_box() as box:
        options = Options(max_retries=1, backoff_ms=5000)
        await box.submit(a_submission("false", job_id="j", options=options))
        box.engine.finish(await box.run("j", 1000), 1)
        await box.until("j", JobState.PENDING)
        assert await box.tick(5999) == []
        assert await box.tick(6000) == ["j"]
        await box.until("j", JobState.RUNNING)
        assert [launch.key for launch in box.engine.launched] == [("j", 1), ("j", 2)]


async def test_an_engine_out_of_reach_is_told_later_and_the_trouble_is_shown() -> None:
    async with a_box() as box:
        box.engine.break_down()
        await box.submit(a_submission("true", job_id="j"))
        await box.tick()
        await eventually(lambda: box.service.problems(), "the trouble")
        assert box.service.problems()[0].startswith("engine: ")
        box.engine.recover()
        await box.until("j", JobState.RUNNING)
        await eventually(lambda: box.service.problems() == [], "the end of the trouble")


async def test_a_job_cancelled_before_its_launch_is_never_started() -> None:
    async with a_box() as box:
        box.engine.break_down()
        await box.submit(a_submission("true", job_id="j"))
        await box.tick()
        await box.service.jobs.cancel(JobId("j"))
        box.engine.recover()
        await box.until("j", JobState.CANCELLED)
        assert box.engine.launched == []


async def test_what_starts_while_the_engine_is_asked_is_neither_lost_nor_an_orphan() -> None:
    engine = SlowEngine()
    async with a_box(engine=engine) as box:
        engine.answer.clear()
        engine.asked.clear()
        reconciling = asyncio.create_task(attempts(box).reconcile())
        await engine.asked.wait()
        await box.submit(a_submission("true", job_id="runs"))
        await box.submit(a_submission("true", job_id="ends"))
        await box.run("runs")
        await box.until("ends", JobState.RUNNING)
        engine.answer.set()
        await reconciling
        assert engine.stopped == []
        assert await box.state_of("runs") is JobState.RUNNING


async def test_an_end_that_is_not_on_record_yet_is_not_forgotten() -> None:
    """The job started and ended while the engine was asked; its end is still on its way to us."""
    engine = SlowEngine()
    async with a_box(engine=engine) as box:
        engine.answer.clear()
        engine.asked.clear()
        reconciling = asyncio.create_task(attempts(box).reconcile())
        await engine.asked.wait()
        await box.submit(a_submission("true", job_id="j"))
        key = await box.run("j")
        # The end is observable, and `changes` has not told it.
        engine._known[key] = Observation(key, Phase.EXITED, 5, exit_code=0)
        engine.answer.set()
        await reconciling
        assert engine.forgotten == []
        await attempts(box).reconcile()
        await box.until("j", JobState.COMPLETED)
        assert engine.forgotten == [key]


async def test_after_a_restart_everything_is_mended_both_ways() -> None:
    store, engine = MemoryStore(), FakeEngine()
    async with a_box(store=store, engine=engine) as box:
        for name in ("goes-on", "ended", "vanished", "requeued"):
            options = Options(requeue=name == "requeued")
            await box.submit(a_submission("true", job_id=name, options=options))
        for name in ("goes-on", "ended", "vanished", "requeued"):
            await box.run(name)
        engine.starts = False
    engine.finish(AttemptKey("ended", 1), 7)
    engine.vanish(AttemptKey("vanished", 1))
    engine.vanish(AttemptKey("requeued", 1))
    engine.starts = True
    async with a_box(store=store, engine=engine) as again:
        await again.until("goes-on", JobState.RUNNING)
        await again.until("ended", JobState.FAILED)
        await again.until("vanished", JobState.FAILED)
        await again.until("requeued", JobState.PENDING)
        assert (await again.service.job("ended")).progress.exit_code == 7
        assert (await again.service.job("vanished")).progress.cause == (
            "the engine knows nothing of it"
        )
        await again.tick()
        await again.until("requeued", JobState.RUNNING)
        launched = [tuple(launch.key) for launch in engine.launched]
        assert launched.count(("goes-on", 1)) == 1
        assert ("requeued", 2) in launched


async def test_what_no_job_asks_for_is_ended() -> None:
    engine = FakeEngine()
    async with a_box(engine=engine) as box:
        await box.submit(a_submission("true", job_id="stranger"))
        key = await box.run("stranger")
    async with a_box(engine=engine, store=MemoryStore()) as other:
        await eventually(lambda: key in other.engine.stopped, "the end of the orphan")


async def test_a_decision_that_was_not_carried_out_before_a_crash_is_carried_out_after_it() -> None:
    store, engine = MemoryStore(), FakeEngine()
    async with a_box(store=store, engine=engine) as box:
        engine.break_down()
        await box.submit(a_submission("true", job_id="j"))
        await box.tick()
    engine.recover()
    async with a_box(store=store, engine=engine) as again:
        await again.until("j", JobState.RUNNING)
        assert [tuple(launch.key) for launch in engine.launched] == [("j", 1)]


async def test_a_launch_has_the_environment_it_was_submitted_with() -> None:
    async with a_box() as box:
        shell = {"A": "1", "TGPU_PARAM_lr": "9", "TGPU_ARRAY_INDEX": "3"}
        await box.submit(a_submission("true", job_id="with", base_environment=shell))
        await box.submit(a_submission("true", job_id="without"))
        await box.run("with")
        await box.until("without", JobState.RUNNING)
        envs = {launch.key.job_id: launch.env for launch in box.engine.launched}
        assert envs["with"]["A"] == "1"
        assert not any(name.startswith(("TGPU_PARAM", "TGPU_ARRAY")) for name in envs["with"])
        assert envs["without"]["PATH"] == "/bin"
