"""What each observation means for its job, whatever the job's state."""

from typing import Any

import pytest

from gpu_scheduler.core import lifecycle
from gpu_scheduler.core.events import JobMoved
from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.lifecycle import JobState, Move, Progress
from gpu_scheduler.core.state import Entry, State
from gpu_scheduler.engines.api import AttemptKey, Observation, Phase
from gpu_scheduler.service.outcome import conclude
from tests.builders import a_job, a_state, entry_of, move, requeue, run, start

NOW = 1_000_000


def placed(state: str = "running", **options: Any) -> tuple[State, Entry]:
    """A job whose first attempt was decided, runs, or is being stopped."""
    world = a_state(a_job("j1", **options))
    start(world, "j1", 0)
    if "running" in state:
        run(world, "j1", at=5)
    if "stopping" in state:
        stopped = lifecycle.stop(JobId("j1"), entry_of(world, "j1").progress, "asked for")
        move(world, "j1", Move.STOP, stopped)
    return world, entry_of(world, "j1")


def seen(phase: Phase, attempt: int = 1, **facts: Any) -> Observation:
    return Observation(AttemptKey("j1", attempt), phase, 900, **facts)


def exited(code: int, **facts: Any) -> Observation:
    return seen(Phase.EXITED, exit_code=code, **facts)


def the_move(entry: Entry, observation: Observation) -> JobMoved:
    (moved,) = conclude(entry, observation, NOW)
    return moved


PLACED_STATES = ["scheduled", "running", "scheduled, stopping", "running, stopping"]


def test_a_start_is_noted_once_with_its_time_and_pid() -> None:
    world, entry = placed("scheduled")
    moved = the_move(entry, seen(Phase.RUNNING, pid=42))
    assert (moved.move, moved.progress.state) == (Move.RUN, JobState.RUNNING)
    assert (moved.progress.started_at, moved.progress.pid) == (900, 42)
    world.apply(moved)
    assert conclude(entry, seen(Phase.RUNNING, pid=42), NOW) == []


def test_a_start_keeps_that_the_job_is_being_stopped() -> None:
    _, entry = placed("scheduled, stopping")
    moved = the_move(entry, seen(Phase.RUNNING, pid=42))
    assert moved.progress.stopping
    assert moved.progress.cause == "asked for"


@pytest.mark.parametrize("state", PLACED_STATES)
@pytest.mark.parametrize("phase", list(Phase))
def test_every_end_takes_the_job_off_its_gpus(state: str, phase: Phase) -> None:
    if phase is Phase.RUNNING:
        return
    world, entry = placed(state)
    world.apply(the_move(entry, seen(phase, exit_code=1 if phase is Phase.EXITED else None)))
    assert world.placed() == []


@pytest.mark.parametrize("state", ["scheduled, stopping", "running, stopping"])
@pytest.mark.parametrize("phase", [Phase.EXITED, Phase.NOT_STARTED, Phase.LOST])
def test_a_job_that_was_to_be_stopped_is_cancelled_however_it_ended(
    state: str, phase: Phase
) -> None:
    _, entry = placed(state, max_retries=3, requeue=True)
    moved = the_move(entry, seen(phase, exit_code=0, cause="whatever"))
    assert moved.move is Move.CANCEL
    assert (moved.progress.state, moved.progress.cause) == (JobState.CANCELLED, "asked for")


@pytest.mark.parametrize("state", ["scheduled", "running"])
def test_exit_code_0_completes(state: str) -> None:
    _, entry = placed(state)
    progress = the_move(entry, exited(0)).progress
    assert (progress.state, progress.exit_code, progress.cause) == (JobState.COMPLETED, 0, None)
    assert progress.ended_at == 900


@pytest.mark.parametrize(
    ("code", "signal", "cause"),
    [(1, None, "exit code 1"), (255, None, "exit code 255"), (137, 9, "signal 9")],
)
def test_any_other_exit_fails_with_the_cause(code: int, signal: int | None, cause: str) -> None:
    _, entry = placed()
    progress = the_move(entry, exited(code, signal=signal)).progress
    assert (progress.state, progress.exit_code) == (JobState.FAILED, code)
    assert progress.cause == cause


@pytest.mark.parametrize(
    ("limit_ms", "cause"),
    [(7_200_000, "time limit of 7200 s reached"), (500, "time limit of 0.5 s reached")],
)
def test_a_time_limit_fails_the_job_and_spends_no_retry(limit_ms: int, cause: str) -> None:
    _, entry = placed(time_limit_ms=limit_ms, max_retries=3)
    progress = the_move(entry, exited(143, cause="time_limit")).progress
    assert (progress.state, progress.cause) == (JobState.FAILED, cause)


def fail_again(world: State, observation: Observation) -> Progress:
    """The job fails, and is started once more as if its back-off had ended."""
    entry = entry_of(world, "j1")
    moved = the_move(entry, observation)
    world.apply(moved)
    return moved.progress


def restart(world: State) -> None:
    start(world, "j1", 0)
    run(world, "j1")


def test_back_off_doubles_with_each_failure_up_to_an_hour() -> None:
    world, _ = placed(max_retries=20, backoff_ms=10_000)
    delays = []
    for attempt in range(1, 13):
        observation = Observation(AttemptKey("j1", attempt), Phase.EXITED, 900, exit_code=1)
        progress = fail_again(world, observation)
        assert (progress.state, progress.failures) == (JobState.PENDING, attempt)
        delays.append((progress.eligible_at - NOW) // 1000)
        restart(world)
    assert delays == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600]


def test_the_last_retry_that_fails_fails_the_job() -> None:
    world, _ = placed(max_retries=1)
    assert fail_again(world, exited(1)).state is JobState.PENDING
    restart(world)
    second = Observation(AttemptKey("j1", 2), Phase.EXITED, 900, exit_code=3)
    progress = fail_again(world, second)
    assert (progress.state, progress.cause) == (JobState.FAILED, "exit code 3")


def test_a_retry_tells_why_and_keeps_the_exit_code() -> None:
    _, entry = placed(max_retries=1)
    moved = the_move(entry, exited(7))
    assert moved.move is Move.REQUEUE
    assert (moved.progress.cause, moved.progress.exit_code) == ("exit code 7", 7)
    assert (moved.progress.attempt, moved.progress.restarts) == (1, 1)


def test_what_could_not_be_started_is_tried_again_soon_and_for_free() -> None:
    _, entry = placed("scheduled", max_retries=0)
    progress = the_move(entry, seen(Phase.NOT_STARTED, cause="too many open files")).progress
    assert (progress.state, progress.failures) == (JobState.PENDING, 0)
    assert progress.eligible_at == NOW + 1000
    assert progress.cause == "too many open files"


def test_what_can_never_be_started_fails() -> None:
    _, entry = placed("scheduled", max_retries=5)
    cause = "no such directory: /x"
    progress = the_move(entry, seen(Phase.NOT_STARTED, cause=cause, retry=False)).progress
    assert (progress.state, progress.cause) == (JobState.FAILED, cause)


def test_a_lost_attempt_fails_the_job() -> None:
    _, entry = placed(max_retries=5)
    progress = the_move(entry, seen(Phase.LOST, cause="the machine was rebooted")).progress
    assert (progress.state, progress.cause) == (JobState.FAILED, "the machine was rebooted")


def test_a_lost_attempt_is_requeued_at_once_and_for_free_if_its_owner_said_so() -> None:
    _, entry = placed(requeue=True)
    progress = the_move(entry, seen(Phase.LOST, cause="the machine was rebooted")).progress
    assert (progress.state, progress.failures) == (JobState.PENDING, 0)
    assert progress.eligible_at == NOW
    assert progress.cause == "the machine was rebooted"


def test_requeue_is_for_the_machine_s_failures_and_not_for_the_job_s_own() -> None:
    _, entry = placed(requeue=True)
    assert the_move(entry, exited(1)).progress.state is JobState.FAILED


@pytest.mark.parametrize("phase", list(Phase))
def test_news_of_another_attempt_changes_nothing(phase: Phase) -> None:
    world, _ = placed(max_retries=3)
    requeue(world, "j1")
    restart(world)
    entry = entry_of(world, "j1")
    assert entry.progress.attempt == 2
    assert conclude(entry, seen(phase, attempt=1, exit_code=1), NOW) == []
    assert conclude(entry, seen(phase, attempt=3, exit_code=1), NOW) == []


@pytest.mark.parametrize("phase", list(Phase))
def test_news_of_a_job_that_waits_again_changes_nothing(phase: Phase) -> None:
    world, entry = placed(max_retries=3)
    requeue(world, "j1")
    assert conclude(entry, seen(phase, exit_code=1), NOW) == []
