"""What is recorded because of a plan: ends, preemptions, promises, bookings, starts."""

from typing import Any

import msgspec

from tests.builders import a_job, a_placement, a_state, a_tenant, entry_of, move, run, start, submit
from tgpu.core.check import check_invariants
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.events import BookingRemoved, BookingSet, Event, JobMoved, JobsSubmitted
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.lifecycle import JobState, Move, stop
from tgpu.core.model.plan import Nomination, Plan, Preemption, PreemptionCause, Start
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.core.state.cluster_state import State
from tgpu.service.accounting.metering import usage_events
from tgpu.service.execution.plan_commit import PlanCommit, prepare_commit

NOW = 10_000


def a_preemption(
    victim: str = "low",
    to: str = "high",
    cause: PreemptionCause = PreemptionCause.PRIORITY,
    lost: int = 4_000_000,
) -> Preemption:
    return Preemption(JobId(victim), JobId(to), cause, lost)


def a_world(**low: Any) -> State:
    """`low` runs on GPU 0 since 6000, `high` waits."""
    high = a_job("high", tenant="speech", priority=900, submitted_at=7)
    state = a_state(
        a_job("low", priority=500, submitted_at=3, **low),
        high,
        tenants=[a_tenant(), a_tenant("speech")],
    )
    start(state, "low", 0, at=5000)
    run(state, "low", at=6000)
    return state


def applied(state: State, plan: Plan, now: int = NOW) -> PlanCommit:
    """Carried out on the state, with all that must hold afterwards."""
    done = prepare_commit(state, plan, now)
    events: list[Event] = [*done.events, *usage_events(state, done.events)]
    for event in events:
        state.apply(event)
    check_invariants(state)
    return done


def moves(done: PlanCommit) -> list[tuple[str, Move]]:
    return [(e.job_id, e.move) for e in done.events if isinstance(e, JobMoved)]


def test_a_victim_is_asked_to_end_and_keeps_its_gpus_until_it_has() -> None:
    state = a_world()
    done = applied(state, Plan(preemptions=(a_preemption(),)))
    assert moves(done) == [("low", Move.STOP)]
    progress = entry_of(state, "low").progress
    assert (progress.state, progress.stopping) == (JobState.RUNNING, True)
    assert progress.gives_way_to == "high"
    assert progress.cause == "preempted for another job"  # it is another tenant's


def test_a_cause_names_the_job_within_its_tenant() -> None:
    state = a_world()
    state.apply(JobsSubmitted(0, (a_job("mine", priority=800, submitted_at=8),)))
    applied(state, Plan(preemptions=(a_preemption(to="mine"),)))
    cause = entry_of(state, "low").progress.cause
    assert cause == "preempted for job mine (priority 800 over 500)"


def test_a_cause_does_not_say_whose_lent_quota_was_reclaimed() -> None:
    state = a_world()
    applied(state, Plan(preemptions=(a_preemption(cause=PreemptionCause.RECLAIM),)))
    cause = entry_of(state, "low").progress.cause
    assert cause == "preempted for another job: lent quota is reclaimed"


def test_who_is_on_booked_gpus_is_not_told_by_whose_booking() -> None:
    state = a_world()
    applied(state, Plan(preemptions=(a_preemption(to="b7", cause=PreemptionCause.BOOKING),)))
    progress = entry_of(state, "low").progress
    assert (progress.gives_way_to, progress.cause) == (
        "b7",
        "preempted: its GPUs are reserved for others",
    )


def test_who_was_named_by_a_policy_is_told_so() -> None:
    state = a_world()
    applied(state, Plan(preemptions=(a_preemption(cause=PreemptionCause.POLICY),)))
    cause = entry_of(state, "low").progress.cause
    assert cause == "preempted for another job, as the scheduling policy chose"


def test_the_receipt_says_who_for_whom_why_and_what_it_costs() -> None:
    done = prepare_commit(a_world(user="ada"), Plan(preemptions=(a_preemption(),)), NOW)
    (receipt,) = done.receipts
    assert (receipt.job_id, receipt.attempt, receipt.tenant_id) == ("low", 1, "default")
    assert (receipt.to, receipt.to_tenant_id, receipt.user) == ("high", "speech", "ada")
    assert (receipt.cause, receipt.lost_gpu_millis_ms) == (PreemptionCause.PRIORITY, 4_000_000)
    assert receipt.reason == "preempted for job high (priority 900 over 500)"
    assert (receipt.asked_at, receipt.gone_at) == (NOW, None)


def test_one_that_is_ending_already_is_not_asked_again() -> None:
    state = a_world()
    progress = entry_of(state, "low").progress
    move(state, "low", Move.STOP, stop(JobId("low"), progress, "cancelled"))
    done = applied(state, Plan(preemptions=(a_preemption(),)))
    assert (done.events, done.receipts) == ([], [])
    assert entry_of(state, "low").progress.gives_way_to is None


def test_a_lease_is_preempted_at_once_and_waits_again_with_its_age() -> None:
    state = a_world(lease=True)
    done = applied(state, Plan(preemptions=(a_preemption(),)))
    assert moves(done) == [("low", Move.PREEMPT), ("low", Move.REQUEUE)]
    entry = entry_of(state, "low")
    assert (entry.progress.state, entry.job.submitted_at) == (JobState.PENDING, 3)
    assert (entry.progress.preemptions, entry.progress.restarts) == (1, 1)
    assert entry.progress.lost_gpu_millis_ms == 4_000 * 1000
    assert entry.progress.cause == "preempted for another job"
    (receipt,) = done.receipts
    assert (receipt.gone_at, receipt.lost_gpu_millis_ms) == (NOW, 4_000_000)


def test_the_gpu_time_of_a_lease_that_is_preempted_is_counted_once() -> None:
    state = a_world(lease=True)
    applied(state, Plan(preemptions=(a_preemption(),)))
    assert state.usage == {(TenantId("default"), "default"): GpuTimeUsage(gpu_millis_ms=4_000_000)}


def test_a_lease_s_gpus_can_be_given_to_another_in_the_same_plan() -> None:
    state = a_world(lease=True)
    begin = Start(JobId("high"), a_placement(0))
    applied(state, Plan(starts=(begin,), preemptions=(a_preemption(),)))
    assert [entry.job.job_id for entry in state.placed()] == ["high"]


def test_a_promise_is_recorded_and_a_repeated_one_is_not() -> None:
    state = a_world()
    plan = Plan(nominations=(Nomination(JobId("high"), a_placement(0)),))
    assert moves(applied(state, plan)) == [("high", Move.NOMINATE)]
    assert entry_of(state, "high").progress.claim == a_placement(0)
    assert applied(state, plan).events == []


def test_the_promise_is_kept_when_the_job_starts() -> None:
    state = a_world(lease=True)
    applied(state, Plan(nominations=(Nomination(JobId("high"), a_placement(1)),)))
    applied(state, Plan(starts=(Start(JobId("high"), a_placement(1)),)))
    assert entry_of(state, "high").progress.claim is None


def a_booking(**fields: Any) -> AdvanceReservation:
    return AdvanceReservation(
        "b7", TenantId("default"), NodeId("n0"), (0,), "A100", 0, 90_000, **fields
    )


def test_a_booking_that_ends_is_removed_with_its_document() -> None:
    state = a_world()
    state.apply(BookingSet(0, a_booking()))
    done = applied(state, Plan(released=(("b7", "nobody used it"),)))
    assert done.events == [BookingRemoved(NOW, "b7", "nobody used it")]
    assert done.documents == {("booking", "b7"): None}
    assert state.ledger.bookings == {}


def test_a_booking_is_used_once_one_of_its_jobs_starts() -> None:
    state = a_state()
    state.apply(BookingSet(0, a_booking()))
    submit(state, a_job("a", booking="b7"), a_job("b", booking="b7"))
    plan = Plan(starts=(Start(JobId("a"), a_placement(0)), Start(JobId("b"), a_placement(1))))
    done = applied(state, plan)
    assert [e for e in done.events if isinstance(e, BookingSet)] == [
        BookingSet(NOW, a_booking(used=True))
    ]
    body = done.documents["booking", "b7"]
    assert body is not None
    assert msgspec.json.decode(body, type=AdvanceReservation) == a_booking(used=True)


def test_a_booking_that_was_used_is_not_recorded_again() -> None:
    state = a_state()
    state.apply(BookingSet(0, a_booking(used=True)))
    submit(state, a_job("a", booking="b7"))
    done = prepare_commit(state, Plan(starts=(Start(JobId("a"), a_placement(0)),)), NOW)
    assert moves(done) == [("a", Move.START)]
    assert (len(done.events), done.documents) == (1, {})


def test_leases_end_and_begin_and_those_that_never_can_are_given_up() -> None:
    state = a_state(a_job("old", lease=True), a_job("never"), a_job("new", lease=True))
    start(state, "old", 0)
    run(state, "old")
    plan = Plan(
        starts=(Start(JobId("new"), a_placement(0)),),
        expired=(JobId("old"),),
        unsatisfiable=((JobId("never"), "what it needs failed"),),
    )
    events = prepare_commit(state, plan, NOW).events
    assert [(e.job_id, e.move) for e in events if isinstance(e, JobMoved)] == [
        ("old", Move.COMPLETE),
        ("never", Move.CANCEL),
        ("new", Move.START),
        ("new", Move.RUN),
    ]
