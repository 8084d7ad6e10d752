"""Jobs on an engine that forgets, loses calls and answers, and takes its time."""

from dataclasses import replace

from tests.unit.service.eventually import eventually
from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Options
from tgpu.core.model.lifecycle import JobState
from tgpu.engines.api import AttemptKey, Phase
from tgpu.engines.fake_cluster import FakeCluster, Loss
from tgpu.service.execution.absence import Absences
from tgpu.service.execution.attempts import Attempts, LaunchSettings
from tgpu.store.memory import MemoryStore

A, B = AttemptKey("a", 1), AttemptKey("b", 1)
PATIENT = LaunchSettings(1000, "/", {})
IMPATIENT = replace(PATIENT, absent_seconds=0)


def attempts(box: Box) -> Attempts:
    found = box.service._attempts
    assert found is not None
    return found


def test_only_what_is_missing_without_a_break_for_long_enough_is_absent() -> None:
    absences = Absences(15)
    assert absences.absent([A, B], 0) == []
    assert absences.absent([A, B], 10) == []
    assert absences.absent([A], 15) == [A]
    assert absences.absent([A, B], 16) == [A]  # b was there in between


def test_a_long_absence_is_looked_at_three_times() -> None:
    absences = Absences(15)
    assert [absences.absent([A], at) for at in (0, 100, 200)] == [[], [], [A]]


async def test_an_attempt_that_an_engine_forgot_is_not_lost_until_that_is_ruled_out() -> None:
    engine = FakeCluster()
    async with a_box(engine=engine, launch=IMPATIENT) as box:
        await box.submit(a_submission("true", job_id="j", options=Options(requeue=True)))
        key = await box.run("j")
        engine.loses = lambda point: Loss.NEWS if point == "news" else None
        engine.finish(key)
        engine._drop(key, engine._ends.get(key) or engine._known[key])  # type: ignore[arg-type]
        await attempts(box).reconcile()
        await attempts(box).reconcile()
        assert await box.state_of("j") is JobState.RUNNING
        assert engine.stopped == []
        await attempts(box).reconcile()
        await eventually(lambda: key in engine.stopped, "the engine to be asked")
        engine.loses = lambda point: None
        await attempts(box).reconcile()  # what it says when asked is the end it had
        await box.until("j", JobState.COMPLETED)


async def test_an_attempt_without_a_trace_is_lost_and_neither_cancelled_nor_run_twice() -> None:
    engine, store = FakeCluster(), MemoryStore()
    async with a_box(engine=engine, store=store, launch=IMPATIENT) as box:
        await box.submit(a_submission("true", job_id="j"))
        key = await box.run("j")
        engine.vanish(key)
        for _ in range(3):
            await attempts(box).reconcile()
        await box.until("j", JobState.FAILED)
        progress = (await box.service.job("j")).progress
        assert progress.cause == "the engine lost it before its end was observed"
        assert len(engine.runs) == 1


async def test_a_launch_whose_answer_was_lost_is_repeated_and_starts_once() -> None:
    engine = FakeCluster()
    lost = [Loss.ANSWER, Loss.CALL, None]
    engine.loses = lambda point: lost.pop(0) if point == "launch" and lost else None
    async with a_box(engine=engine) as box:
        await box.submit(a_submission("true", job_id="j"))
        await box.run("j")
        assert [run.key[:2] for run in engine.runs] == [("j", 1)]


async def test_a_launch_that_arrives_behind_the_cancel_finds_a_tombstone() -> None:
    engine = FakeCluster()
    engine.loses = lambda point: Loss.LATE if point == "launch" else None
    async with a_box(engine=engine) as box:
        await box.submit(a_submission("true", job_id="j"))
        await box.tick()
        await eventually(lambda: engine._late, "the launch to be on its way")
        await box.service.jobs.cancel(JobId("j"))
        await box.until("j", JobState.CANCELLED)
        await eventually(lambda: engine.forgotten, "the end to be forgotten")
        engine.deliver()
        assert engine.runs == []
        assert {key.job_id for key in engine.tombstones} == {"j"}


async def test_what_is_taken_is_told_with_its_cause_until_it_starts() -> None:
    engine = FakeCluster(starts=False)
    async with a_box(engine=engine) as box:
        await box.submit(a_submission("true", job_id="j"))
        await box.tick()
        await eventually(lambda: box.service.standing_of(JobId("j")), "the engine to have taken it")
        told = box.service.standing_of(JobId("j"))
        assert told is not None
        assert (told.phase, told.cause) == (Phase.TAKEN, "no node of the cluster has room")
        assert await box.state_of("j") is JobState.SCHEDULED
        engine.bind()
        await box.until("j", JobState.RUNNING)
        assert box.service.standing_of(JobId("j")) is None


async def test_what_is_out_of_reach_keeps_its_gpus_and_is_told_until_it_is_heard_again() -> None:
    engine = FakeCluster(nodes={"a": 8})
    async with a_box(engine=engine) as box:
        await box.submit(a_submission("true", job_id="j"))
        key = await box.run("j")
        engine.silence("a")
        await eventually(lambda: box.service.standing_of(JobId("j")), "the silence to be noted")
        for _ in range(4):
            await attempts(box).reconcile()
        assert await box.state_of("j") is JobState.RUNNING
        told = box.service.standing_of(JobId("j"))
        assert told is not None
        assert (told.phase, told.cause) == (Phase.UNREACHABLE, "node a does not answer")
        engine.hear("a")
        await eventually(lambda: box.service.standing_of(JobId("j")) is None, "it to be heard")
        engine.finish(key)
        await box.until("j", JobState.COMPLETED)


async def test_a_stranger_is_told_by_what_its_engine_calls_it() -> None:
    engine = FakeCluster()
    async with a_box(engine=engine) as box:
        await box.submit(a_submission("true", job_id="j"))
        await box.run("j")
    async with a_box(engine=engine, store=MemoryStore()) as other:
        assert "j attempt 1 (fake-1)" in " ".join(other.service.problems())
