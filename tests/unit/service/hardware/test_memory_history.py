"""Peaks of GPU memory: seen while jobs run, kept over a restart, used for the next one."""

from tests.unit.service.processes import a_process
from tests.unit.service.world import Box, FailingStore, a_box, a_submission
from tgpu.devices.api import GpuProcess
from tgpu.engines.api import AttemptKey
from tgpu.engines.fake import FakeEngine
from tgpu.service.commands.submission import SizeBy
from tgpu.service.hardware.memory_history import ModelPeaks, ModelRun
from tgpu.store.memory import MemoryStore

ENGINE_LOGS = "/tmp/logs"


def an_engine() -> FakeEngine:
    return FakeEngine(clock=lambda: 0, logs=ENGINE_LOGS)


def a_mark(engine: FakeEngine, key: AttemptKey) -> dict[str, str]:
    return {
        "TGPU_JOB_ID": key.job_id,
        "TGPU_ATTEMPT": str(key.attempt),
        "TGPU_JOB_UUID": key.identity,
        "TGPU_LOG_DIR": engine.log_dir(key) or "",
    }


async def uses(box: Box, pid: int, *mib: int) -> None:
    """It holds this much of each GPU, and somebody looks."""
    for index, amount in enumerate(mib):
        box.gpus.set(index, processes=[GpuProcess(pid, amount)])
    await box.service.gpu_monitor.look()


async def test_the_highest_of_all_readings_is_kept_over_all_gpus() -> None:
    engine = an_engine()
    async with a_box(engine=engine, gpus="sim:2xA100") as box:
        await box.submit(a_submission("x", "--llm", "Org/M-7B", job_id="a", gpus=2))
        with a_process(a_mark(engine, await box.run("a"))) as process:
            for pair in ((1000, 500), (3000, 2000), (10, 10)):
                await uses(box, process.pid, *pair)
        assert box.service.gpu_monitor.memory_history.of_job("a") == 5000
        assert box.service.gpu_monitor.memory_history.of_model("m-7b") == ModelPeaks(
            (ModelRun("a", 5000),), 1
        )


async def test_growth_that_is_hardly_any_costs_no_commit() -> None:
    engine, store = an_engine(), FailingStore()
    async with a_box(engine=engine, store=store, gpus="sim:1xA100") as box:
        await box.submit(a_submission("x", "--llm", "m", job_id="a"))
        with a_process(a_mark(engine, await box.run("a"))) as process:
            await uses(box, process.pid, 10_000)
            before = len(store.commits)
            await uses(box, process.pid, 10_100)
            assert len(store.commits) == before
            await uses(box, process.pid, 10_500)
            assert len(store.commits) == before + 1


async def test_peaks_outlive_the_service_and_size_the_next_job() -> None:
    engine, store = an_engine(), MemoryStore()
    async with a_box(engine=engine, store=store, gpus="sim:1xA100") as box:
        await box.submit(a_submission("x", "--llm", "m-7b", job_id="a"))
        with a_process(a_mark(engine, await box.run("a"))) as process:
            await uses(box, process.pid, 40_000)
    async with a_box(store=store, gpus="sim:1xA100") as box:
        assert box.service.gpu_monitor.memory_history.of_job("a") == 40_000
        wanted = a_submission("x", "--llm", "m-7b", job_id="b", size_by=SizeBy.LEARNED)
        await box.submit(wanted)
        assert (await box.service.job("b")).job.request.gpu_millis == 540
        by_name = a_submission("x", "--llm", "m-7b", job_id="c", size_by=SizeBy.MODEL)
        await box.submit(by_name)
        assert (await box.service.job("c")).job.request.gpu_millis == 200


async def test_processes_of_others_are_no_peak_of_anybody() -> None:
    async with a_box(gpus="sim:1xA100") as box:
        with a_process() as other:
            await uses(box, other.pid, 9000)
        await box.submit(a_submission("x", "--llm", "m", job_id="a"))
        await box.run("a")
        await box.service.gpu_monitor.look()
        assert box.service.gpu_monitor.memory_history.of_job("a") is None


def test_a_model_keeps_its_last_runs_and_the_count_of_all() -> None:
    peaks = ModelPeaks()
    for number in range(25):
        peaks = peaks.with_run(ModelRun(str(number), number))
    assert (len(peaks.runs), peaks.count, peaks.highest_mib) == (20, 25, 24)
    assert peaks.with_run(ModelRun("24", 99)).highest_mib == 99
    assert peaks.with_run(ModelRun("24", 99)).count == 25
