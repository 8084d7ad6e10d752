"""Launching, stopping and reconciling through an engine that does what the test says."""

import asyncio
import signal
from dataclasses import replace

import pytest

from tests.unit.service.eventually import eventually
from tests.unit.service.world import Box, FailingStore, a_box, a_submission
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Options
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.plan import Plan, Preemption, PreemptionCause
from tgpu.engines.api import Observation, Phase, PreemptionNotice
from tgpu.engines.fake import FakeEngine
from tgpu.service.execution.attempts import Attempts
from tgpu.store.api import StoreUnavailable
from tgpu.store.memory import MemoryStore


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
        key = await box.key("j")
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
        assert [launch.key[:2] for launch in box.engine.launched] == [("j", 1), ("j", 2)]


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
        ended, vanished, requeued = [
            await box.key(name) for name in ("ended", "vanished", "requeued")
        ]
    engine.finish(ended, 7)
    engine.vanish(vanished)
    engine.vanish(requeued)
    engine.starts = True
    async with a_box(store=store, engine=engine) as again:
        await again.until("goes-on", JobState.RUNNING)
        await again.until("ended", JobState.FAILED)
        await again.until("vanished", JobState.FAILED)
        await again.until("requeued", JobState.PENDING)
        assert (await again.service.job("ended")).progress.exit_code == 7
        assert (await again.service.job("vanished")).progress.cause == (
            "the engine does not know it"
        )
        await again.tick()
        await again.until("requeued", JobState.RUNNING)
        launched = [launch.key[:2] for launch in engine.launched]
        assert launched.count(("goes-on", 1)) == 1
        assert ("requeued", 2) in launched


async def test_an_attempt_of_our_own_that_its_job_does_not_ask_for_any_more_is_ended() -> None:
    async with a_box() as box:
        await box.submit(a_submission("true", job_id="j"))
        key = await box.run("j")
        box.engine.vanish(key)
        await attempts(box).reconcile()
        await box.until("j", JobState.FAILED)
        box.engine.start(key)  # it was there after all
        await attempts(box).reconcile()
        await eventually(lambda: key in box.engine.stopped, "the end of the orphan")


async def test_an_attempt_of_a_job_that_this_database_does_not_know_is_left_alone() -> None:
    engine = FakeEngine()
    async with a_box(engine=engine) as box:
        await box.submit(a_submission("true", job_id="j"))
        key = await box.run("j")
    async with a_box(engine=engine, store=MemoryStore()) as other:
        await attempts(other).reconcile()
        assert "jobs run that this database does not know: j attempt 1" in " ".join(
            other.service.problems()
        )
        # The same name, and another job: neither takes the other's place.
        await other.submit(a_submission("true", job_id="j"))
        ours = await other.run("j")
        assert ours[:2] == key[:2]
        engine.finish(key, 0)
        await eventually(lambda: key in engine.forgotten, "the stranger's end to be noted")
        assert (await other.service.job("j")).progress.state is JobState.RUNNING
        assert engine.stopped == []
        assert "does not know" not in " ".join(other.service.problems())


async def test_a_decision_that_was_not_carried_out_before_a_crash_is_carried_out_after_it() -> None:
    store, engine = MemoryStore(), FakeEngine()
    async with a_box(store=store, engine=engine) as box:
        engine.break_down()
        await box.submit(a_submission("true", job_id="j"))
        await box.tick()
    engine.recover()
    async with a_box(store=store, engine=engine) as again:
        await again.until("j", JobState.RUNNING)
        assert [launch.key[:2] for launch in engine.launched] == [("j", 1)]


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


# -- preemption ----------------------------------------------------------------------------------


def plan_instead(monkeypatch: pytest.MonkeyPatch, box: Box, plan: Plan) -> None:
    """Let the next cycles decide this."""
    monkeypatch.setattr(box.service, "_decide", lambda *_: plan)


def preemption_of(victim: str, to: str) -> Plan:
    return Plan(preemptions=(Preemption(JobId(victim), JobId(to), PreemptionCause.PRIORITY, 1000),))


async def test_a_job_that_is_preempted_is_stopped_waits_again_and_there_is_a_receipt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    async with a_box(store=store) as box:
        await box.submit(a_submission("train", job_id="low", options=Options(user="ada")))
        key = await box.run("low", 1000)
        await box.submit(a_submission("train", job_id="high", priority=900))
        plan_instead(monkeypatch, box, preemption_of("low", "high"))
        await box.tick(5000)
        await box.until("low", JobState.PENDING)
        assert (box.engine.stopped, box.engine.notices) == ([key], {key: None})
        progress = (await box.service.job("low")).progress
        assert (progress.preemptions, progress.lost_gpu_millis_ms) == (1, 4_000_000)
        (receipt,) = box.service.receipts.newest(10)
        assert (receipt.gone_at, receipt.lost_gpu_millis_ms) == (5000, 4_000_000)
    async with a_box(store=store) as box:
        assert box.service.receipts.newest(10) == [receipt]


@pytest.mark.parametrize(
    ("number", "notice"),
    [
        (signal.SIGUSR1, PreemptionNotice(signal.SIGUSR1, 60_000)),
        (signal.SIGTERM, None),
        (None, None),
    ],
)
async def test_it_gets_the_signal_that_it_asked_for(
    monkeypatch: pytest.MonkeyPatch, number: int | None, notice: PreemptionNotice | None
) -> None:
    async with a_box(engine=FakeEngine(stops=False)) as box:
        options = Options(checkpoint_signal=number)
        await box.submit(a_submission("train", job_id="low", options=options))
        await box.submit(a_submission("train", job_id="high", priority=900, held=True))
        key = await box.run("low")
        plan_instead(monkeypatch, box, preemption_of("low", "high"))
        await box.tick(5000)
        await eventually(lambda: box.engine.stopped, "the stop")
        assert box.engine.notices == {key: notice}


async def test_a_cancelled_job_is_not_asked_to_save() -> None:
    async with a_box(engine=FakeEngine(stops=False)) as box:
        options = Options(checkpoint_signal=signal.SIGUSR1)
        await box.submit(a_submission("train", job_id="j", options=options))
        key = await box.run("j")
        await box.service.jobs.cancel(JobId("j"))
        await eventually(lambda: box.engine.stopped, "the stop")
        assert box.engine.notices == {key: None}


async def test_cancelled_while_it_is_preempted_it_is_told_so_and_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_box(engine=FakeEngine(stops=False)) as box:
        options = Options(checkpoint_signal=signal.SIGUSR1)
        await box.submit(a_submission("train", job_id="low", options=options))
        await box.submit(a_submission("train", job_id="high", priority=900, held=True))
        key = await box.run("low")
        plan_instead(monkeypatch, box, preemption_of("low", "high"))
        await box.tick(5000)
        await eventually(lambda: box.engine.stopped == [key], "the notice")
        await box.service.jobs.cancel(JobId("low"))
        await eventually(lambda: box.engine.stopped == [key, key], "the stop")
        assert box.engine.notices == {key: None}
        box.engine.finish(key, 143, cause="stopped")
        await box.until("low", JobState.CANCELLED)


async def test_after_a_restart_it_gets_the_signal_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the engine was told before the crash, nobody knows."""
    store, engine = MemoryStore(), FakeEngine(stops=False)
    async with a_box(store=store, engine=engine) as box:
        options = Options(checkpoint_signal=signal.SIGUSR2)
        await box.submit(a_submission("train", job_id="low", options=options))
        await box.submit(a_submission("train", job_id="high", priority=900, held=True))
        key = await box.run("low")
        plan_instead(monkeypatch, box, preemption_of("low", "high"))
        await box.tick(5000)
        await eventually(lambda: engine.stopped, "the stop")
    engine.stopped.clear()
    async with a_box(store=store, engine=engine) as box:
        await eventually(lambda: engine.stopped, "the stop after the restart")
        assert engine.notices == {key: PreemptionNotice(signal.SIGUSR2, 60_000)}
        engine.finish(key, 0, cause="stopped")
        await box.until("low", JobState.PENDING)
        assert box.service.receipts.newest(1)[0].gone_at is not None


async def test_an_order_that_cannot_be_recorded_leaves_no_receipt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = FailingStore()
    async with a_box(store=store) as box:
        await box.submit(a_submission("train", job_id="low"))
        await box.submit(a_submission("train", job_id="high", priority=900, held=True))
        await box.run("low")
        plan_instead(monkeypatch, box, preemption_of("low", "high"))
        store.broken = "disk full"
        with pytest.raises(StoreUnavailable):
            await box.tick(5000)
        store.broken = None
        assert box.service.receipts.newest(10) == []


async def test_a_gang_is_launched_with_the_place_of_each_worker() -> None:
    async with a_box() as box:
        request = replace(a_submission().request, gpu_millis=3000, workers=3)
        await box.submit(a_submission("train", job_id="g", request=request))
        await box.run("g")
        (launch,) = box.engine.launched
        assert [worker["RANK"] for worker in launch.workers] == ["0", "1", "2"]
        assert launch.env["TGPU_WORLD_SIZE"] == "3"


async def test_a_share_is_launched_with_its_limit_on_memory() -> None:
    async with a_box() as box:
        await box.submit(a_submission("train", job_id="s", gpus=0.5, gpu_type="A100"))
        await box.run("s")
        assert "TGPU_GPU_MEM_LIMIT_MB" in box.engine.launched[0].env
