"""From a plan to events, where there are processes and where there are none."""

from tests.builders import a_job, a_placement, a_state, entry_of, move, run, start
from tgpu.core.check import check_invariants
from tgpu.core.model import lifecycle
from tgpu.core.model.events import Event, JobMoved
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.plan import Plan, Preemption, PreemptionCause, Start
from tgpu.core.model.rules import BackfillMode, PreemptionRules, Rules
from tgpu.core.plan_events import (
    LIVE,
    VIRTUAL,
    Execution,
    may_find_more,
    plan_events,
    stop_finished,
)
from tgpu.core.state.cluster_state import State

NOW = 10_000
STARTS = Plan(starts=(Start(JobId("high"), a_placement(1)),))


def a_world() -> State:
    """`low` runs on GPU 0 since 6000, `high` waits."""
    state = a_state(a_job("low", priority=100), a_job("high", priority=900))
    start(state, "low", 0, at=6000)
    run(state, "low", at=6000)
    return state


def preempted_for(to: str) -> Preemption:
    return Preemption(JobId("low"), JobId(to), PreemptionCause.PRIORITY, 0)


def moves(events: list[Event]) -> list[tuple[str, Move]]:
    return [(one.job_id, one.move) for one in events if isinstance(one, JobMoved)]


def test_a_start_is_confirmed_where_nobody_else_would() -> None:
    state = a_world()
    assert moves(plan_events(state, STARTS, NOW, LIVE)) == [("high", Move.START)]
    virtual = moves(plan_events(state, STARTS, NOW, VIRTUAL))
    assert virtual == [("high", Move.START), ("high", Move.RUN)]


def test_a_victim_that_two_ask_for_is_preempted_once() -> None:
    state = a_world()
    plan = Plan(preemptions=(preempted_for("high"), preempted_for("r-1")))
    assert moves(plan_events(state, plan, NOW, LIVE)) == [("low", Move.STOP)]
    events = plan_events(state, plan, NOW, VIRTUAL)
    assert moves(events) == [("low", Move.PREEMPT), ("low", Move.REQUEUE)]
    for event in events:
        state.apply(event)
    check_invariants(state)
    assert entry_of(state, "low").progress.preemptions == 1


def test_how_much_work_is_kept_is_said_by_who_simulates() -> None:
    state = a_world()
    execution = Execution(True, evicts_at_once=True, saved_at=lambda _, now: now - 1500)
    gone, _ = plan_events(state, Plan(preemptions=(preempted_for("high"),)), NOW, execution)
    assert isinstance(gone, JobMoved)
    assert gone.progress.lost_gpu_millis_ms == 1500 * 1000


def test_who_was_asked_to_end_on_hold_waits_on_hold() -> None:
    state = a_world()
    asked = lifecycle.put_back(JobId("low"), entry_of(state, "low").progress, "put on hold")
    move(state, "low", Move.STOP, asked)
    (waits,) = stop_finished(entry_of(state, "low"), NOW)
    assert (waits.move, waits.progress.state) == (Move.REQUEUE, JobState.PENDING)
    assert waits.progress.held


def test_after_starts_alone_another_cycle_is_made_where_it_may_find_more() -> None:
    assert not may_find_more(STARTS, Rules(BackfillMode.GREEDY))
    assert not may_find_more(STARTS, Rules(BackfillMode.STRICT, hold_after_ms=1))
    assert may_find_more(STARTS, Rules(BackfillMode.GREEDY, hold_after_ms=1))
    assert may_find_more(STARTS, Rules(BackfillMode.EASY))
    assert may_find_more(STARTS, Rules(BackfillMode.STRICT, preemption=PreemptionRules()))
    assert not may_find_more(Plan(), Rules(BackfillMode.EASY))
    assert may_find_more(Plan(released=(("r-1", "over"),)), Rules())
