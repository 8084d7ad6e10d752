"""What each observation means for its job, whatever the job's state."""

from typing import Any

import pytest

from tests.builders import a_job, a_state, entry_of, move, requeue, run, start
from tgpu.core.check import check_invariants
from tgpu.core.model import lifecycle
from tgpu.core.model.cause import BLAME, Blame, Evidence, Fault
from tgpu.core.model.events import JobMoved, TimePassed
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.lifecycle import JobState, Move, Progress
from tgpu.core.model.node import Part, Share
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.core.state.cluster_state import Entry, State
from tgpu.engines.api import OVER, AttemptKey, Observation, Phase, Place
from tgpu.service.accounting.metering import usage_events
from tgpu.service.execution.absence import ABSENT
from tgpu.service.execution.outcome import conclude

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
@pytest.mark.parametrize("phase", [Phase.TAKEN, Phase.UNREACHABLE])
def test_what_is_neither_a_start_nor_an_end_changes_nothing(state: str, phase: Phase) -> None:
    _, entry = placed(state)
    assert conclude(entry, seen(phase, cause="node a does not answer"), NOW) == []


@pytest.mark.parametrize(
    ("phase", "cause"),
    [(Phase.NOT_STARTED, "stopped"), (Phase.EXITED, "stopped"), (Phase.LOST, "it is gone")],
)
def test_what_the_engine_ruled_out_because_it_did_not_know_it_is_lost_and_not_cancelled(
    phase: Phase, cause: str
) -> None:
    world, entry = placed("running", requeue=True)
    noted = lifecycle.note(entry.job.job_id, entry.progress, ABSENT)
    world.apply(JobMoved(NOW, entry.job.job_id, Move.NOTE, noted))
    moved = the_move(entry_of(world, entry.job.job_id), seen(phase, cause=cause))
    assert (moved.move, moved.progress.fault) == (Move.REQUEUE, Fault.NODE)
    assert moved.progress.cause in ("the engine lost it before its end was observed", "it is gone")


@pytest.mark.parametrize("state", PLACED_STATES)
@pytest.mark.parametrize("phase", sorted(OVER))
def test_every_end_takes_the_job_off_its_gpus(state: str, phase: Phase) -> None:
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
@pytest.mark.parametrize("phase", [Phase.EXITED, Phase.NOT_STARTED])
def test_a_job_that_was_stopped_before_that_was_on_record_is_cancelled_and_not_tried_again(
    state: str, phase: Phase
) -> None:
    _, entry = placed(state, max_retries=3, requeue=True)
    moved = the_move(entry, seen(phase, exit_code=143, cause="stopped"))
    assert moved.move is Move.CANCEL
    assert moved.progress.cause == "cancelled while the store could not record it"


@pytest.mark.parametrize("state", ["scheduled", "running"])
def test_exit_code_0_completes(state: str) -> None:
    _, entry = placed(state)
    progress = the_move(entry, exited(0)).progress
    assert (progress.state, progress.exit_code, progress.cause) == (JobState.COMPLETED, 0, None)
    assert progress.ended_at == 900


@pytest.mark.parametrize(
    ("code", "signal", "cause"),
    [(1, None, "exit code 1"), (255, None, "exit code 255"), (137, 9, "signal 9 (KILL)")],
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


# -- preemption ----------------------------------------------------------------------------------


def being_preempted(state: str = "running", **options: Any) -> tuple[State, Entry]:
    world, entry = placed(state, **options)
    asked = lifecycle.ask_preemption(
        JobId("j1"), entry.progress, JobId("high"), "preempted for job high"
    )
    move(world, "j1", Move.STOP, asked)
    return world, entry


@pytest.mark.parametrize("code", [0, 1, 143])
def test_a_preempted_job_waits_again_at_once(code: int) -> None:
    world, entry = being_preempted()
    moves = conclude(entry, exited(code, cause="stopped"), NOW)
    assert [moved.move for moved in moves] == [Move.PREEMPT, Move.REQUEUE]
    for moved in moves:
        world.apply(moved)
    progress = entry.progress
    assert (progress.state, progress.eligible_at) == (JobState.PENDING, NOW)
    assert (progress.preemptions, progress.restarts, progress.failures) == (1, 1, 0)
    assert progress.cause == "preempted for job high"
    assert progress.lost_gpu_millis_ms == (900 - 5) * 1000
    assert not progress.stopping
    assert world.placed() == []


def test_what_it_did_before_its_checkpoint_is_not_lost() -> None:
    world, entry = being_preempted()
    marked = lifecycle.checkpoint(JobId("j1"), entry.progress, 800)
    move(world, "j1", Move.CHECKPOINT, marked)
    gone = conclude(entry, exited(0, cause="stopped"), NOW)[0].progress
    assert gone.lost_gpu_millis_ms == (900 - 800) * 1000


def test_its_gpu_time_is_counted_once_though_it_moves_twice() -> None:
    world, entry = being_preempted()
    (used,) = usage_events(world, conclude(entry, exited(143, cause="stopped"), NOW))
    assert used.usage == GpuTimeUsage(gpu_millis_ms=(900 - 5) * 1000)


def test_one_that_ended_by_itself_first_counts_as_it_ended() -> None:
    _, entry = being_preempted()
    assert the_move(entry, exited(0)).progress.state is JobState.COMPLETED
    assert the_move(entry, exited(3)).progress.cause == "exit code 3"
    assert the_move(entry, exited(143, cause="time_limit")).move is Move.FAIL


def test_one_that_failed_by_itself_first_has_its_retries() -> None:
    _, entry = being_preempted(max_retries=1)
    moved = the_move(entry, exited(3))
    assert (moved.move, moved.progress.failures, moved.progress.preemptions) == (Move.REQUEUE, 1, 0)


def test_one_that_was_cancelled_meanwhile_is_cancelled() -> None:
    world, entry = being_preempted()
    stopped = lifecycle.stop(JobId("j1"), entry.progress, "cancelled by its owner")
    move(world, "j1", Move.STOP, stopped)
    moved = the_move(entry, exited(143, cause="stopped"))
    assert (moved.move, moved.progress.cause) == (Move.CANCEL, "cancelled by its owner")


def test_one_that_was_not_started_is_preempted_and_loses_nothing() -> None:
    _, entry = being_preempted("scheduled")
    moves = conclude(entry, seen(Phase.NOT_STARTED, cause="stopped", retry=False), NOW)
    assert [moved.move for moved in moves] == [Move.PREEMPT, Move.REQUEUE]
    assert moves[1].progress.lost_gpu_millis_ms == 0


def test_one_that_was_lost_meanwhile_runs_again_as_it_would_have() -> None:
    _, entry = being_preempted()
    moves = conclude(entry, seen(Phase.LOST, cause="the machine was rebooted"), NOW)
    assert [moved.move for moved in moves] == [Move.PREEMPT, Move.REQUEUE]


def test_a_start_that_is_reported_while_it_is_preempted_is_noted() -> None:
    _, entry = being_preempted("scheduled")
    moved = the_move(entry, seen(Phase.RUNNING, pid=42))
    assert (moved.move, moved.progress.gives_way_to) == (Move.RUN, "high")


FAULT = "GPU 3: Xid 79, fell off the bus"


@pytest.mark.parametrize("state", ["scheduled", "running"])
def test_a_job_that_fails_on_an_ill_gpu_fails_with_that_as_its_cause(state: str) -> None:
    _, entry = placed(state)
    (moved,) = conclude(entry, exited(1), NOW, FAULT)
    assert (moved.move, moved.progress.exit_code) == (Move.FAIL, 1)
    assert moved.progress.cause == f"{FAULT} (exit code 1)"


def test_one_whose_owner_wants_so_waits_again_and_spends_no_retry() -> None:
    _, entry = placed(requeue=True, max_retries=2)
    (moved,) = conclude(entry, exited(1), NOW, FAULT)
    assert (moved.move, moved.progress.failures) == (Move.REQUEUE, 0)
    assert moved.progress.cause == f"{FAULT} (exit code 1)"


def test_a_job_that_completes_on_an_ill_gpu_has_completed() -> None:
    _, entry = placed()
    (moved,) = conclude(entry, exited(0), NOW, FAULT)
    assert (moved.move, moved.progress.cause) == (Move.COMPLETE, None)


def test_a_cancelled_job_on_an_ill_gpu_is_cancelled() -> None:
    _, entry = placed("running, stopping", requeue=True)
    (moved,) = conclude(entry, exited(143, signal=15), NOW, FAULT)
    assert (moved.move, moved.progress.cause) == (Move.CANCEL, "asked for")


def test_a_job_that_was_lost_with_its_gpu_says_both() -> None:
    _, entry = placed()
    (moved,) = conclude(entry, seen(Phase.LOST, cause="the machine hung"), NOW, FAULT)
    assert moved.progress.cause == f"{FAULT} (the machine hung)"


@pytest.mark.parametrize("phase", [Phase.EXITED, Phase.LOST, Phase.NOT_STARTED])
def test_one_that_was_ended_to_be_held_waits_on_hold(phase: Phase) -> None:
    world, entry = placed("running")
    put_back = lifecycle.put_back(JobId("j1"), entry.progress, "did nothing")
    move(world, "j1", Move.STOP, put_back)
    moved = the_move(entry, seen(phase))
    assert (moved.move, moved.progress.held) == (Move.REQUEUE, True)
    assert moved.progress.cause == "did nothing"
    world.apply(moved)
    assert entry.progress.state is JobState.PENDING


@pytest.mark.parametrize(
    ("observation", "fault"),
    [
        (exited(1), Fault.USER_ERROR),
        (exited(137, signal=9), Fault.USER_ERROR),
        (exited(143, cause="time_limit"), Fault.TIME_LIMIT),
        (seen(Phase.LOST, cause="the machine was rebooted"), Fault.NODE),
        (seen(Phase.NOT_STARTED, cause="no such directory: /x", retry=False), Fault.USER_ERROR),
        (seen(Phase.NOT_STARTED, cause="no runner"), Fault.NODE),
        (exited(0), None),
    ],
    ids=["exit", "signal", "time limit", "lost", "cannot", "not yet", "well"],
)
def test_every_end_says_whose_fault_it_was(observation: Observation, fault: Fault | None) -> None:
    _, entry = placed()
    assert the_move(entry, observation).progress.fault is fault


def test_what_the_log_says_is_in_the_cause_and_spends_a_retry() -> None:
    _, entry = placed(max_retries=1, requeue=True)
    evidence = Evidence("RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n")
    (moved,) = conclude(entry, exited(1), NOW, None, evidence)
    assert (moved.move, moved.progress.failures) == (Move.REQUEUE, 1)
    assert moved.progress.fault is Fault.CUDA_OUT_OF_MEMORY
    assert "Tried to allocate 2 GiB" in (moved.progress.cause or "")


def test_a_preempted_job_says_so_and_forgets_it_at_the_next_start() -> None:
    world, entry = being_preempted("running")
    for moved in conclude(entry, exited(143, cause="stopped"), NOW):
        world.apply(moved)
    assert entry_of(world, "j1").progress.fault is Fault.PREEMPTED
    start(world, "j1", 0)
    assert entry_of(world, "j1").progress.fault is None


def test_a_cancelled_job_is_nobody_s_fault() -> None:
    _, entry = placed("running, stopping")
    assert the_move(entry, exited(143, signal=15)).progress.fault is None


# -- whose fault it was, and what another try costs ----------------------------------------------


def test_the_table_of_faults_is_closed() -> None:
    assert set(BLAME) == set(Fault)


@pytest.mark.parametrize("fault", list(Fault))
def test_only_what_the_infrastructure_did_is_tried_again_for_free(fault: Fault) -> None:
    _, entry = placed(max_retries=1)
    moved = the_move(entry, exited(1, fault=fault, cause="the engine says so"))
    spent, free = moved.progress.failures, moved.progress.free_restarts
    match BLAME[fault]:
        case Blame.INFRASTRUCTURE:
            assert (moved.move, spent, free) == (Move.REQUEUE, 0, 1)
        case Blame.USER:
            assert (moved.move, spent, free) == (Move.REQUEUE, 1, 0)
        case Blame.POLICY:
            assert (moved.move, spent, free) == (Move.FAIL, 0, 0)
    assert moved.progress.fault is fault


@pytest.mark.parametrize("fault", [Fault.NODE, Fault.EVICTED])
def test_a_job_that_asked_for_no_second_try_gets_none_also_not_for_free(fault: Fault) -> None:
    _, entry = placed()
    assert the_move(entry, exited(1, fault=fault)).move is Move.FAIL


@pytest.mark.parametrize(
    ("fault", "move"),
    [
        (None, Move.REQUEUE),
        (Fault.NODE, Move.REQUEUE),
        (Fault.IMAGE, Move.FAIL),
        (Fault.REFUSED, Move.FAIL),
    ],
)
def test_what_the_engine_did_not_start_is_tried_again_where_the_infrastructure_is_to_blame(
    fault: Fault | None, move: Move
) -> None:
    _, entry = placed("scheduled", max_retries=3)
    moved = the_move(entry, seen(Phase.NOT_STARTED, cause="no such image: x", fault=fault))
    assert (moved.move, moved.progress.fault) == (move, fault or Fault.NODE)


def free_tries(phase: Phase, **options: Any) -> list[JobMoved]:
    """What becomes of a job whose attempts all end like this, until that is no try any more."""
    world, entry = placed(**options)
    moves: list[JobMoved] = []
    while True:
        attempt = entry.progress.attempt
        moves.append(the_move(entry, seen(phase, attempt, cause="the disk is full")))
        if moves[-1].move is not Move.REQUEUE:
            return moves
        world.apply(moves[-1])
        again = moves[-1].progress.eligible_at
        world.apply(TimePassed(again))
        start(world, "j1", 0)
        entry = entry_of(world, "j1")


@pytest.mark.parametrize("phase", [Phase.NOT_STARTED, Phase.LOST])
def test_free_tries_come_later_each_time_and_end(phase: Phase) -> None:
    moves = free_tries(phase, requeue=True)
    waits = [move.progress.eligible_at - NOW for move in moves[:-1]]
    assert waits == sorted(waits)
    assert waits[0] == (1000 if phase is Phase.NOT_STARTED else 0)
    assert 600_000 <= waits[-1] <= 601_000
    assert len(waits) == 200
    last = moves[-1].progress
    assert (last.state, last.fault, last.failures) == (JobState.FAILED, Fault.NODE, 0)
    assert last.cause == (
        "the disk is full; the infrastructure failed it 201 times: it is not retried"
    )


def test_an_end_is_on_record_with_the_place_that_the_engine_had_bound() -> None:
    world, entry = placed()
    part = Part(NodeId("elsewhere"), (Share(5, 1000),))
    moved = the_move(entry, exited(0, place=Place((part,), "slurm job 7")))
    placement = moved.progress.placement
    assert placement is not None
    assert (placement.parts(), placement.gpu_type) == ((part,), "A100")
    world.apply(moved)  # what it gives back is what our books had given it
    check_invariants(world)
    assert world.placed() == []
