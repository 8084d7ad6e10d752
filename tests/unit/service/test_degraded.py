"""A driver or a store that keeps failing: what goes on, what waits, and that it ends by itself."""

import pytest

from tests.unit.service.eventually import eventually
from tests.unit.service.world import NODE, Box, FailingStore, a_box, a_submission
from tgpu.breaker import BreakerState
from tgpu.core.errors import Unavailable
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState
from tgpu.devices.api import Snapshot
from tgpu.devices.simulated import SimulatedProvider
from tgpu.service.recording.clock import WallClock
from tgpu.telemetry.counts import Counts


class FailingProvider(SimulatedProvider):
    """A driver that fails while it is told to, and counts how often it is asked."""

    broken: str | None = None
    reads = 0

    def read(self) -> Snapshot:
        self.reads += 1
        good = super().read()
        if self.broken is None:
            return good
        problem = f"driver failed: {self.broken}"
        return Snapshot(self.name, tuple(g.unmeasured(problem) for g in good.gpus), problem)

    def at_once(self) -> Snapshot | None:
        return None  # like any real driver


def problems_of_gpus(box: Box) -> set[str | None]:
    return {gpu.problem for gpu in box.service.state.ledger.nodes[NODE].node.gpus}


async def test_a_driver_that_fails_once_stops_nobody() -> None:
    driver = FailingProvider("sim:2xA100")
    async with a_box(leases=True, provider=driver) as box:
        driver.broken = "Unknown Error"
        await box.service.gpu_monitor.look()
        assert problems_of_gpus(box) == {None}
        assert box.service.problems() == ["GPU driver: driver failed: Unknown Error"]
        await box.submit(a_submission(job_id="j"))
        assert await box.tick() == ["j"]


async def test_a_driver_that_keeps_failing_starts_no_jobs_until_it_answers() -> None:
    driver = FailingProvider("sim:2xA100")
    counts = Counts()
    async with a_box(leases=True, provider=driver, observers=[counts]) as box:
        await box.submit(a_submission(job_id="runs"))
        await box.tick()
        driver.broken = "Unknown Error"
        for _ in range(5):
            await box.service.gpu_monitor.look()
        assert driver.reads == 1 + 3  # the first look, then three failures, and no more
        assert problems_of_gpus(box) == {"stale: driver failed: Unknown Error"}
        (problem,) = box.service.problems()
        assert "no new jobs start" in problem
        assert counts.breakers["driver"] == BreakerState.OPEN
        assert await box.state_of("runs") is JobState.RUNNING
        await box.submit(a_submission(job_id="waits"))
        assert await box.tick() == []
        driver.broken = None
        watch = box.service.machines[0].watch
        breaker = watch.breaker
        watch.breaker = type(breaker)(breaker.state, 3, -(10**9), breaker.problem)
        await box.service.gpu_monitor.look()
        assert problems_of_gpus(box) == {None}
        assert box.service.problems() == []
        assert counts.breakers == dict.fromkeys(("driver", "store"), BreakerState.CLOSED)
        assert await box.tick() == ["waits"]


async def test_by_old_readings_nobody_is_idle() -> None:
    driver = FailingProvider("sim:1xA100")
    async with a_box(provider=driver) as box:
        await box.submit(a_submission("true", job_id="j"))
        await box.run("j")
        driver.broken = "Unknown Error"
        looked: list[object] = []
        box.service.gpu_monitor.jobs._steps = lambda *given: looked.append(given) or ()  # type: ignore[method-assign, func-returns-value]  # only counted
        await box.service.gpu_monitor.look()
        assert looked == []
        driver.broken = None
        await box.service.gpu_monitor.look()
        assert len(looked) == 1


async def test_ends_are_recorded_while_the_driver_fails() -> None:
    driver = FailingProvider("sim:1xA100")
    async with a_box(provider=driver) as box:
        await box.submit(a_submission("true", job_id="j"))
        key = await box.run("j")
        driver.broken = "Unknown Error"
        box.engine.finish(key, 0)
        await box.until("j", JobState.COMPLETED)


async def test_an_end_costs_no_turn_of_the_writer_for_gpus_that_are_as_they_were() -> None:
    store = FailingStore()
    async with a_box(store=store, provider=FailingProvider("sim:2xA100")) as box:
        await box.submit(a_submission("true", job_id="j"))
        key = await box.run("j")
        turns: list[object] = []
        do = box.service.writer.do

        async def counted(decide: object, touches: object) -> object:
            turns.append(touches)
            return await do(decide, touches)  # type: ignore[arg-type]  # passed on as it came

        box.service.writer.do = counted  # type: ignore[method-assign, assignment]  # only counted
        box.engine.finish(key, 0)
        await box.until("j", JobState.COMPLETED)
        assert turns == [{"j"}]


async def test_simulated_gpus_without_processes_are_not_even_read_at_an_end() -> None:
    class Counted(SimulatedProvider):
        reads = 0

        def read(self) -> Snapshot:
            self.reads += 1
            return super().read()

    provider = Counted("sim:2xA100")
    async with a_box(provider=provider) as box:
        await box.submit(a_submission("true", job_id="j"))
        key = await box.run("j")
        box.engine.finish(key, 0)
        await box.until("j", JobState.COMPLETED)
        assert provider.reads == 1  # at the start


# -- the store -----------------------------------------------------------------------------------


async def test_a_store_that_keeps_failing_pauses_decisions_and_is_taken_back() -> None:
    store = FailingStore()
    counts = Counts()
    async with a_box(
        leases=True, store=store, clock=WallClock(), observers=[counts], interval_seconds=0.02
    ) as box:
        await box.submit(a_submission(job_id="runs"))
        await box.until("runs", JobState.RUNNING)
        store.broken = "no space left on the device"
        for number in range(4):
            with pytest.raises(Unavailable, match="no space left"):
                await box.submit(a_submission(job_id=f"lost-{number}"))
        (problem,) = box.service.problems()
        assert "nothing is recorded or decided" in problem
        assert counts.breakers["store"] is BreakerState.OPEN
        assert box.service.state.entry(JobId("runs")) is not None
        store.broken = None
        await eventually(lambda: not box.service.problems(), "the store to be taken back")
        await box.submit(a_submission(job_id="later"))
        await box.until("later", JobState.RUNNING)
        assert box.service.state.entry(JobId("lost-0")) is None
