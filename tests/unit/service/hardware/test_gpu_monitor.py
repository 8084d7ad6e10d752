"""What a look at the GPUs leads to: who may have them, who is told, who is swept."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.unit.service.eventually import eventually
from tests.unit.service.processes import a_process
from tests.unit.service.world import NODE, Box, a_box, a_submission
from tgpu.core.hardware.external_use import ExternalUseRules
from tgpu.core.hardware.idle import IdleRules
from tgpu.core.hardware.overuse import OveruseAction, OveruseRules
from tgpu.core.model.events import QueueSet
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Options
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.node import Gpu
from tgpu.core.model.tenant import TenantQueue
from tgpu.devices.api import GpuProcess
from tgpu.devices.simulated import SimulatedProvider
from tgpu.engines.api import AttemptKey
from tgpu.engines.fake import FakeEngine
from tgpu.service.hardware.job_watch import WatchRules
from tgpu.service.hardware.node_hardware import HardwareRules
from tgpu.service.recording.clock import ManualClock
from tgpu.store.memory import MemoryStore

MINUTE = 60_000
RULES = HardwareRules(foreign=ExternalUseRules(), probation_ms=10 * MINUTE)
WATCH = WatchRules(
    IdleRules(percent=5, window_ms=30 * MINUTE), OveruseRules(OveruseAction.END, MINUTE)
)


@asynccontextmanager
async def a_watched_box(**fields: Any) -> AsyncIterator[Box]:
    settings = {"gpus": "sim:2xA100", "hardware_rules": RULES, "watch": WATCH, **fields}
    async with a_box(**settings) as box:
        yield box


def gpu(box: Box, index: int) -> Gpu:
    return box.service.state.ledger.nodes[NODE].node.gpus[index]


async def look(box: Box, now: int | None = None) -> None:
    if now is not None:
        assert isinstance(box.service.clock, ManualClock)
        box.service.clock.set(now)
    await box.service.gpu_monitor.look()


# -- foreign processes ---------------------------------------------------------------------------


async def test_a_gpu_in_foreign_hands_takes_no_new_job_until_it_is_free_again() -> None:
    async with a_watched_box(leases=True) as box:
        with a_process() as other:
            box.gpus.set(0, processes=[GpuProcess(other.pid, 70_000)])
            await look(box)
            sentence = gpu(box, 0).foreign or ""
            assert f"process {other.pid}" in sentence
            assert "70000 MiB" in sentence
            await box.submit(a_submission(job_id="a"))
            await box.submit(a_submission(job_id="b"))
            assert await box.tick(1) == ["a"]
        box.gpus.set(0, processes=[])
        await look(box)
        assert gpu(box, 0).foreign is None
        assert await box.tick(2) == ["b"]


async def test_what_changes_of_a_foreign_process_is_not_recorded_each_time() -> None:
    async with a_watched_box(leases=True) as box:
        with a_process() as other:
            box.gpus.set(0, processes=[GpuProcess(other.pid, 70_000)])
            await look(box)
            journal = await box.service.store.journal(0, 100)
            box.gpus.set(0, processes=[GpuProcess(other.pid, 71_000)])
            await look(box)
            assert await box.service.store.journal(0, 100) == journal


async def test_what_a_lease_s_holder_runs_on_its_gpu_is_not_foreign() -> None:
    async with a_watched_box(leases=True) as box:
        await box.submit(a_submission(job_id="a", gpus=2))
        await box.tick(1)
        with a_process() as own:
            box.gpus.set(0, processes=[GpuProcess(own.pid, 70_000)])
            await look(box)
            assert gpu(box, 0).foreign is None


async def test_processes_nobody_can_see_count_only_where_we_have_no_job() -> None:
    unseen = GpuProcess(2**22 + 1, 70_000)  # above the largest pid that Linux gives
    async with a_watched_box() as box:
        await box.submit(a_submission("train", job_id="a"))
        await box.run("a")
        for index in (0, 1):
            box.gpus.set(index, processes=[unseen])
        await look(box)
        assert gpu(box, 0).foreign is None
        assert gpu(box, 1).foreign is not None


# -- errors ------------------------------------------------------------------------------------


async def test_a_job_whose_gpu_had_an_error_fails_with_that_as_its_cause() -> None:
    async with a_watched_box() as box:
        await box.submit(a_submission("train", job_id="a"))
        key = await box.run("a")
        box.gpus.set(0, xids=[31, 79])
        box.engine.finish(key, exit_code=1)
        await box.until("a", JobState.FAILED)
        cause = (await box.service.job("a")).progress.cause
        assert cause == "GPU 0: Xid 79, fell off the bus (exit code 1)"
        assert gpu(box, 0).problem == "Xid 79, fell off the bus"
        assert "GPU 0: Xid 79, fell off the bus" in box.service.problems()


async def test_one_whose_owner_wants_so_runs_again_elsewhere() -> None:
    async with a_watched_box() as box:
        await box.submit(a_submission("train", job_id="a", options=Options(requeue=True)))
        key = await box.run("a")
        box.gpus.set(0, ecc_uncorrected=1)
        box.engine.finish(key, exit_code=1)
        await box.until("a", JobState.PENDING)
        progress = (await box.service.job("a")).progress
        assert progress.failures == 0
        assert await box.tick(1) == ["a"]
        placement = (await box.service.job("a")).progress.placement
        assert placement is not None
        assert [share.gpu_index for share in placement.shares] == [1]


async def test_a_job_that_fails_by_itself_is_to_blame() -> None:
    async with a_watched_box() as box:
        await box.submit(a_submission("train", job_id="a", options=Options(requeue=True)))
        key = await box.run("a")
        box.gpus.set(0, xids=[13])
        box.engine.finish(key, exit_code=1)
        await box.until("a", JobState.FAILED)
        assert (await box.service.job("a")).progress.cause == "exit code 1"
        assert gpu(box, 0).problem is None


async def test_probation_survives_a_restart_and_ends_by_itself() -> None:
    store, gpus = MemoryStore(), SimulatedProvider("sim:2xA100")
    async with a_watched_box(leases=True, store=store, provider=gpus) as first:
        gpus.set(0, ecc_uncorrected=1)
        await look(first, 1_000)
        assert gpu(first, 0).problem == "memory errors that could not be corrected: 1"
    async with a_watched_box(leases=True, store=store, provider=gpus) as second:
        await look(second, 2_000)
        assert (gpu(second, 0).problem or "").startswith("on probation until ")
        await look(second, 2_000 + 10 * MINUTE)
        assert gpu(second, 0).problem is None


async def test_an_operator_ends_a_probation() -> None:
    async with a_watched_box(leases=True) as box:
        box.gpus.set(0, ecc_uncorrected=1)
        await look(box)
        await box.service.pause_gpu(0, None)
        assert gpu(box, 0).problem is None
        await look(box)
        assert gpu(box, 0).problem is None


async def test_a_slow_gpu_is_told_and_still_takes_jobs() -> None:
    async with a_watched_box(leases=True, gpus="sim:4xA100") as box:
        for index in range(4):
            clock = 1410 if index else 705
            box.gpus.set(index, sm_clock_mhz=clock, utilisation_percent=90)
        await look(box, 0)
        assert box.service.problems() == []
        await look(box, MINUTE)
        assert "GPU 0: slower than its siblings" in box.service.problems()[0]
        assert gpu(box, 0).problem is None


# -- survivors ---------------------------------------------------------------------------------


def a_mark(engine: FakeEngine, key: AttemptKey) -> dict[str, str]:
    return {
        "TGPU_JOB_ID": key.job_id,
        "TGPU_ATTEMPT": str(key.attempt),
        "TGPU_JOB_UUID": key.identity,
        "TGPU_LOG_DIR": engine.log_dir(key) or "",
    }


async def test_a_gpu_with_something_left_of_its_job_is_quarantined_and_swept(
    tmp_path: Path,
) -> None:
    engine = FakeEngine(clock=lambda: 0, logs=str(tmp_path))
    async with a_watched_box(engine=engine, gpus="sim:1xA100") as box:
        await box.submit(a_submission("train", job_id="a"))
        key = await box.run("a")
        await box.submit(a_submission("train", job_id="b"))
        with a_process(a_mark(engine, key)) as left:
            box.gpus.set(0, processes=[GpuProcess(left.pid, 100)])
            engine.finish(key)
            await box.until("a", JobState.COMPLETED)
            assert (
                gpu(box, 0).problem == f"quarantined: process {left.pid} of job a is still running"
            )
            assert await box.tick(1) == []
            await look(box)
            assert left.wait(20) == -15
        box.gpus.set(0, processes=[])
        await look(box)
        assert gpu(box, 0).problem is None
        assert await box.tick(2) == ["b"]


async def test_one_that_does_not_heed_term_is_killed(tmp_path: Path) -> None:
    engine = FakeEngine(clock=lambda: 0, logs=str(tmp_path))
    async with a_watched_box(engine=engine) as box:
        await box.submit(a_submission("train", job_id="a"))
        key = await box.run("a")
        with a_process(a_mark(engine, key), stubborn=True) as left:
            box.gpus.set(0, processes=[GpuProcess(left.pid, 100)])
            engine.finish(key)
            await box.until("a", JobState.COMPLETED)

            async def is_gone() -> bool:
                await look(box)
                return left.poll() is not None

            await eventually(is_gone, "the survivor is killed")
            assert left.returncode == -9


async def test_the_job_of_another_service_with_the_same_number_is_left_alone(
    tmp_path: Path,
) -> None:
    engine = FakeEngine(clock=lambda: 0, logs=str(tmp_path))
    async with a_watched_box(engine=engine) as box:
        await box.submit(a_submission("train", job_id="a"))
        key = await box.run("a")
        engine.finish(key)
        await box.until("a", JobState.COMPLETED)
        mark = a_mark(engine, key) | {"TGPU_LOG_DIR": "/elsewhere/logs"}
        with a_process(mark) as other:
            box.gpus.set(0, processes=[GpuProcess(other.pid, 100)])
            await look(box)
            assert gpu(box, 0).problem is None
            assert box.service.hardware.survivors() == []
            assert other.poll() is None


# -- what jobs do with their GPUs ----------------------------------------------------------------


async def idle_box_with(box: Box, action: str) -> None:
    queue = TenantQueue(TenantId("default"), "default", idle_action=action)
    box.service.state.apply(QueueSet(0, queue))


async def cause_of(box: Box, job_id: str) -> str:
    return (await box.service.job(job_id)).progress.cause or ""


async def test_an_idle_job_is_told_then_warned_then_ended_where_its_queue_says_so() -> None:
    async with a_watched_box() as box:
        await idle_box_with(box, "end")
        await box.submit(a_submission("sleep", job_id="a"))
        await box.run("a")
        await look(box, 0)
        await look(box, 30 * MINUTE)
        assert await cause_of(box, "a") == "idle: GPU 0 was idle for 30 min"
        await look(box, 60 * MINUTE)
        assert "it will be ended in 30 min" in await cause_of(box, "a")
        assert await box.state_of("a") is JobState.RUNNING
        await look(box, 90 * MINUTE)
        await box.until("a", JobState.CANCELLED)
        assert await cause_of(box, "a") == "idle: GPU 0 was idle for 90 min"


async def test_a_paused_job_is_not_idle_and_its_time_begins_anew() -> None:
    async with a_watched_box() as box:
        await idle_box_with(box, "end")
        await box.submit(a_submission("sleep", job_id="a"))
        await box.run("a")
        await look(box, 0)
        await box.service.jobs.pause(JobId("a"), paused=True)
        for minutes in (30, 60, 90):
            await look(box, minutes * MINUTE)
        await box.service.jobs.pause(JobId("a"), paused=False)
        await look(box, 100 * MINUTE)
        assert await cause_of(box, "a") == ""
        await look(box, 130 * MINUTE)
        assert await cause_of(box, "a") == "idle: GPU 0 was idle for 30 min"


async def test_short_windows_are_told_in_seconds() -> None:
    async with a_watched_box(watch=replace(WATCH, idle=IdleRules(window_ms=45_000))) as box:
        await box.submit(a_submission("sleep", job_id="a"))
        await box.run("a")
        await look(box, 0)
        await look(box, 45_000)
        assert await cause_of(box, "a") == "idle: GPU 0 was idle for 45 s"


async def test_an_idle_job_is_put_on_hold_where_its_queue_says_so() -> None:
    async with a_watched_box() as box:
        await idle_box_with(box, "hold")
        await box.submit(a_submission("sleep", job_id="a"))
        await box.run("a")
        for minutes in (0, 30, 60, 90):
            await look(box, minutes * MINUTE)
        await box.until("a", JobState.PENDING)
        assert (await box.service.job("a")).progress.held
        assert await box.tick(91 * MINUTE) == []


async def test_a_cancelled_job_stays_cancelled_though_it_was_to_be_held() -> None:
    engine = FakeEngine(clock=lambda: 0, stops=False)
    async with a_watched_box(engine=engine) as box:
        await idle_box_with(box, "hold")
        await box.submit(a_submission("sleep", job_id="a"))
        key = await box.run("a")
        for minutes in (0, 30, 60, 90):
            await look(box, minutes * MINUTE)
        await box.service.jobs.cancel(JobId("a"))
        engine.finish(key, exit_code=143)
        await box.until("a", JobState.CANCELLED)


async def test_an_idle_job_of_a_plain_queue_is_only_told() -> None:
    async with a_watched_box() as box:
        await box.submit(a_submission("sleep", job_id="a"))
        await box.run("a")
        for minutes in range(0, 300, 30):
            await look(box, minutes * MINUTE)
        assert await box.state_of("a") is JobState.RUNNING
        box.gpus.set(0, utilisation_percent=99)
        await look(box, 300 * MINUTE)
        assert await cause_of(box, "a") == ""  # taken back


async def test_an_idle_lease_is_taken_back_where_its_queue_says_so() -> None:
    async with a_watched_box(leases=True) as box:
        await idle_box_with(box, "end")
        await box.submit(a_submission(job_id="a"))
        await box.tick(0)
        for minutes in (0, 30, 60, 90):
            await look(box, minutes * MINUTE)
        assert await box.state_of("a") is JobState.CANCELLED


async def test_the_one_that_uses_too_much_memory_is_ended_and_not_its_neighbour(
    tmp_path: Path,
) -> None:
    engine = FakeEngine(clock=lambda: 0, logs=str(tmp_path))
    async with a_watched_box(engine=engine, gpus="sim:1xA100") as box:
        for name in ("greedy", "modest"):
            await box.submit(a_submission("train", job_id=name, gpus=0.5))
        await box.run("greedy")
        await box.until("modest", JobState.RUNNING)
        marks = [a_mark(engine, await box.key(name)) for name in ("greedy", "modest")]
        with a_process(marks[0]) as greedy, a_process(marks[1]) as modest:
            box.gpus.set(
                0,
                processes=[GpuProcess(greedy.pid, 50_000, 50), GpuProcess(modest.pid, 20_000, 50)],
            )
            await look(box, 1_000)
            assert "its share is 40960 MiB" in await cause_of(box, "greedy")
            assert await box.state_of("greedy") is JobState.RUNNING
            await look(box, 1_000 + MINUTE)
            await box.until("greedy", JobState.CANCELLED)
            assert "uses 50000 MiB of GPU 0's memory" in await cause_of(box, "greedy")
            assert await box.state_of("modest") is JobState.RUNNING
