from typing import Any

import pytest
from msgspec.structs import fields, replace

from tests.builders import a_placement
from tgpu.core.errors import IllegalMove
from tgpu.core.model import lifecycle
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import MOVES, PENDING, TERMINAL, JobState, Move, Progress

J = JobId("j1")

# Written out a second time on purpose: a change of the table must be meant twice.
LEGAL = {
    ("pending", "start"): "scheduled",
    ("pending", "be cancelled"): "cancelled",
    ("pending", "be held"): "pending",
    ("pending", "be released"): "pending",
    ("pending", "be promised room"): "pending",
    ("scheduled", "run"): "running",
    ("scheduled", "complete"): "completed",
    ("scheduled", "fail"): "failed",
    ("scheduled", "be cancelled"): "cancelled",
    ("scheduled", "be requeued"): "pending",
    ("scheduled", "be preempted"): "preempted",
    ("scheduled", "be stopped"): "scheduled",
    ("running", "complete"): "completed",
    ("running", "fail"): "failed",
    ("running", "be cancelled"): "cancelled",
    ("running", "be requeued"): "pending",
    ("running", "be preempted"): "preempted",
    ("running", "be stopped"): "running",
    ("running", "mark a checkpoint"): "running",
    ("running", "be told something"): "running",
    ("running", "be paused"): "running",
    ("running", "be resumed"): "running",
    ("preempted", "be requeued"): "pending",
    ("preempted", "be cancelled"): "cancelled",
}
PAIRS = [(state, move) for state in JobState for move in Move]


def test_there_are_seven_states_and_fifteen_moves() -> None:
    assert len(PAIRS) == 105


@pytest.mark.parametrize(("state", "move"), PAIRS, ids=lambda value: str(value).replace(" ", "-"))
def test_every_pair_of_state_and_move_is_legal_or_refused(state: JobState, move: Move) -> None:
    expected = LEGAL.get((state, move))
    if expected is not None:
        assert lifecycle.next_state(J, state, move) == expected
        return
    with pytest.raises(IllegalMove) as refusal:
        lifecycle.next_state(J, state, move)
    assert refusal.value.message == f"job j1 is {state}, so it cannot {move}"
    assert refusal.value.details == [{"job_id": "j1", "state": state, "action": move}]


def test_nothing_leaves_a_terminal_state() -> None:
    assert not [pair for pair in MOVES if pair[0] in TERMINAL]


def test_every_state_can_be_reached() -> None:
    assert set(MOVES.values()) == set(JobState)


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize(
    ("move", "change"),
    [
        (Move.START, lambda p: lifecycle.place(J, p, a_placement(0), 5)),
        (Move.RUN, lambda p: lifecycle.run(J, p, 5, 17)),
        (Move.COMPLETE, lambda p: lifecycle.end(J, p, JobState.COMPLETED, 5)),
        (Move.FAIL, lambda p: lifecycle.end(J, p, JobState.FAILED, 5)),
        (Move.CANCEL, lambda p: lifecycle.end(J, p, JobState.CANCELLED, 5)),
        (Move.REQUEUE, lambda p: lifecycle.requeue(J, p, 9, "why", counts=True)),
        (Move.PREEMPT, lambda p: lifecycle.preempt(J, p, 5, 1000)),
        (Move.STOP, lambda p: lifecycle.stop(J, p, "why")),
        (Move.STOP, lambda p: lifecycle.ask_preemption(J, p, JobId("j2"), "why")),
        (Move.NOMINATE, lambda p: lifecycle.nominate(J, p, a_placement(0))),
        (Move.CHECKPOINT, lambda p: lifecycle.checkpoint(J, p, 5)),
        (Move.NOTE, lambda p: lifecycle.note(J, p, "why")),
        (Move.STOP, lambda p: lifecycle.put_back(J, p, "why")),
        (Move.HOLD, lambda p: lifecycle.hold(J, p, True)),
        (Move.RELEASE, lambda p: lifecycle.hold(J, p, False)),
        (Move.PAUSE, lambda p: lifecycle.pause(J, p, 5)),
        (Move.RESUME, lambda p: lifecycle.resume(J, p, 5)),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, Move) else "",
)
def test_every_change_of_progress_follows_the_table(state, move, change) -> None:
    progress = Progress(state=state)
    if (state, move) in LEGAL:
        assert change(progress).state == LEGAL[state, move]
    else:
        with pytest.raises(IllegalMove):
            change(progress)


def test_place_begins_the_next_attempt_and_forgets_the_last_one() -> None:
    before = Progress(attempt=2, failures=1, restarts=2, eligible_at=9, exit_code=3, cause="x")
    after = lifecycle.place(J, before, a_placement(1), at=50)
    assert after == Progress(
        state=JobState.SCHEDULED,
        attempt=3,
        failures=1,
        restarts=2,
        placement=a_placement(1),
        started_at=50,
    )


def test_run_records_when_and_as_which_process() -> None:
    placed = lifecycle.place(J, PENDING, a_placement(0), at=50)
    running = lifecycle.run(J, placed, at=60, pid=17)
    assert (running.started_at, running.pid, running.placement) == (60, 17, a_placement(0))


def test_end_keeps_where_the_job_ran_and_that_it_is_no_longer_stopping() -> None:
    placed = lifecycle.place(J, PENDING, a_placement(0), at=50)
    stopping = lifecycle.stop(J, placed, "its time was up")
    over = lifecycle.end(J, stopping, JobState.FAILED, 70, signal=15, cause="its time was up")
    assert over.placement == a_placement(0)
    assert (over.ended_at, over.signal, over.cause, over.stopping) == (
        70,
        15,
        "its time was up",
        False,
    )


def test_requeue_spends_a_retry_only_where_it_counts() -> None:
    placed = lifecycle.place(J, PENDING, a_placement(0), at=50)
    counted = lifecycle.requeue(J, placed, 90, "exit 1", counts=True)
    free = lifecycle.requeue(J, placed, 0, "the machine went away", counts=False)
    assert (counted.failures, counted.restarts, counted.eligible_at) == (1, 1, 90)
    assert (free.failures, free.restarts, free.attempt) == (0, 1, 1)
    assert counted.placement is None


def test_a_second_stop_keeps_the_first_cause() -> None:
    placed = lifecycle.place(J, PENDING, a_placement(0), at=50)
    once = lifecycle.stop(J, placed, "cancelled")
    assert lifecycle.stop(J, once, "its time was up") == once
    assert (once.stopping, once.cause) == (True, "cancelled")


def test_hold_and_release_are_inverses() -> None:
    held = lifecycle.hold(J, PENDING, True)
    assert held.held
    assert lifecycle.hold(J, held, False) == PENDING


def a_victim(**fields: object) -> Progress:
    running = lifecycle.run(J, lifecycle.place(J, PENDING, a_placement(0), at=50), 100, pid=1)
    return replace(running, **fields)


def test_a_job_that_is_preempted_keeps_its_gpus_until_it_is_gone() -> None:
    victim = lifecycle.ask_preemption(J, a_victim(), JobId("vip"), "for vip")
    assert (victim.stopping, victim.gives_way_to, victim.cause) == (True, "vip", "for vip")
    assert victim.placement == a_placement(0)


def test_what_is_lost_is_counted_from_the_last_checkpoint() -> None:
    gone = lifecycle.preempt(J, a_victim(checkpoint_at=400), at=1000, gpu_millis=2000)
    again = lifecycle.preempt(J, a_victim(lost_gpu_millis_ms=7, preemptions=1), 1000, 2000)
    assert (gone.lost_gpu_millis_ms, gone.preemptions, gone.placement) == (1_200_000, 1, None)
    assert (again.lost_gpu_millis_ms, again.preemptions) == (1_800_007, 2)


def test_the_count_of_preemptions_outlives_requeue_and_start() -> None:
    gone = lifecycle.preempt(J, a_victim(), 1000, 1000)
    back = lifecycle.requeue(J, gone, 0, "preempted", counts=False)
    assert lifecycle.place(J, back, a_placement(1), 2000).preemptions == 1


def test_a_job_that_is_cancelled_while_it_is_preempted_is_cancelled() -> None:
    victim = lifecycle.ask_preemption(J, a_victim(), JobId("vip"), "for vip")
    cancelled = lifecycle.stop(J, victim, "cancelled")
    assert (cancelled.gives_way_to, cancelled.cause) == (None, "cancelled")
    assert lifecycle.ask_preemption(J, cancelled, JobId("vip"), "for vip") == cancelled


def test_a_job_that_is_cancelled_while_it_is_put_back_is_cancelled() -> None:
    running = replace(PENDING, state=JobState.RUNNING, placement=a_placement(0))
    back = lifecycle.put_back(J, running, "did nothing")
    assert (back.stopping, back.held, back.cause) == (True, True, "did nothing")
    cancelled = lifecycle.stop(J, back, "by its owner")
    assert (cancelled.held, cancelled.cause) == (False, "by its owner")
    assert lifecycle.put_back(J, cancelled, "did nothing") == cancelled


def test_a_claim_is_gone_once_the_job_starts() -> None:
    promised = lifecycle.nominate(J, PENDING, a_placement(3))
    assert promised.claim == a_placement(3)
    assert lifecycle.place(J, promised, a_placement(3), 5).claim is None


# Every field with a value of its own, whatever its type.
NAMES: dict[str, Any] = {field.name: f"{field.name}!" for field in fields(Progress)}
NAMES |= {"paused_at": None, "paused_by": "", "paused_ms": 7}
FULL = Progress(**(NAMES | {"state": JobState.RUNNING, "attempt": 3}))


def test_an_end_changes_nothing_but_what_is_told_of_it() -> None:
    ended = lifecycle.end(J, FULL, JobState.FAILED, 9, exit_code=1, signal=2, cause="why")
    told = {"exit_code": 1, "signal": 2, "cause": "why", "stopping": False, "fault": None}
    assert ended == replace(FULL, state=JobState.FAILED, ended_at=9, **told)


def test_a_start_keeps_what_is_counted_and_nothing_else() -> None:
    kept = ("failures", "restarts", "preemptions", "lost_gpu_millis_ms", "ran_ms", "free_restarts")
    counts: dict[str, Any] = {name: NAMES[name] for name in kept}
    placed = lifecycle.place(J, replace(FULL, state=JobState.PENDING), a_placement(0), 7)
    new = Progress(JobState.SCHEDULED, attempt=4, placement=a_placement(0), started_at=7)
    assert placed == replace(new, **counts)


def test_a_pause_is_counted_when_it_is_over_and_with_the_end() -> None:
    running = Progress(state=JobState.RUNNING, started_at=0)
    paused = lifecycle.pause(J, running, 100)
    assert paused.paused_at == 100
    assert lifecycle.pause(J, paused, 150) == paused
    resumed = lifecycle.resume(J, replace(paused, paused_by="alice"), 300)
    assert (resumed.paused_at, resumed.paused_by, resumed.paused_ms) == (None, "", 200)
    assert lifecycle.resume(J, resumed, 400) == resumed
    again = lifecycle.pause(J, resumed, 500)
    assert lifecycle.paused_ms(again, 600) == 300
    over = lifecycle.end(J, again, JobState.CANCELLED, 700)
    assert (over.paused_at, over.paused_ms) == (None, 400)


def test_the_next_attempt_begins_awake() -> None:
    paused = lifecycle.pause(J, Progress(state=JobState.RUNNING, started_at=0), 100)
    gone = lifecycle.preempt(J, paused, 200, 1000)
    again = lifecycle.requeue(J, gone, 200, "preempted", counts=False)
    placed = lifecycle.place(J, again, a_placement(0), at=300)
    assert (placed.paused_at, placed.paused_by, placed.paused_ms) == (None, "", 0)
