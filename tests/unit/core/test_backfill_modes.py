"""Reservations, holds and queues with an order of their own, on worlds small enough to read."""

import pytest

from tests.builders import (
    a_booking,
    a_gpu,
    a_job,
    a_node,
    a_queue,
    a_state,
    a_tenant,
    start,
    started,
    submit,
)
from tgpu.core.cycle import schedule
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.events import BookingSet
from tgpu.core.model.ids import NodeId, TenantId
from tgpu.core.model.plan import BackfillReservation, Plan
from tgpu.core.model.rules import BackfillMode, PreemptionRules, Rules
from tgpu.core.policies.fifo import Fifo
from tgpu.core.policies.priority import PriorityWithAging
from tgpu.core.reservations.reserved_capacity import FAR
from tgpu.core.state.cluster_state import State

EASY = Rules(backfill=BackfillMode.EASY)
HOUR = 3_600_000


def a_busy_box(*jobs: object, running_limit: int | None = HOUR) -> State:
    """Four GPUs, of which two are taken for an hour; a job for all four is first in line."""
    state = a_state(
        a_job("running", gpus=2, time_limit_ms=running_limit),
        a_job("large", gpus=4, submitted_at=1),
        *jobs,  # type: ignore[arg-type]  # they are jobs
        nodes=[a_node(gpus=4)],
    )
    start(state, "running", 0, 1)
    return state


def plan_of(state: State, now: int = 10, rules: Rules = EASY) -> Plan:
    return schedule(state, now, Fifo(), rules=rules)


def test_the_first_that_cannot_start_is_told_when_it_will() -> None:
    (reservation,) = plan_of(a_busy_box()).reservations
    assert (reservation.job_id, reservation.at) == ("large", HOUR)


def test_who_is_over_in_time_passes() -> None:
    short = a_job("short", gpus=2, submitted_at=2, time_limit_ms=HOUR - 10)
    assert started(plan_of(a_busy_box(short))) == ["short"]


@pytest.mark.parametrize("limit", [HOUR - 9, None])
def test_who_may_not_be_over_in_time_does_not_pass(limit: int | None) -> None:
    slow = a_job("slow", gpus=1, submitted_at=2, time_limit_ms=limit)
    assert started(plan_of(a_busy_box(slow))) == []
    assert started(plan_of(a_busy_box(slow), rules=Rules())) == ["slow"]


def test_who_leaves_the_reserved_gpus_alone_passes_however_long_it_runs() -> None:
    state = a_state(
        a_job("running", gpus=2, time_limit_ms=HOUR),
        a_job("large", gpus=3, submitted_at=1),
        a_job("slow", gpus=1, submitted_at=2),
        a_job("slow too", gpus=1, submitted_at=3),
        nodes=[a_node(gpus=4)],
    )
    start(state, "running", 0, 1)
    assert started(plan_of(state)) == ["slow"]


def test_nobody_passes_in_a_strict_line() -> None:
    short = a_job("short", gpus=1, submitted_at=2, time_limit_ms=5)
    assert started(plan_of(a_busy_box(short), rules=Rules(backfill=BackfillMode.STRICT))) == []


def test_a_job_kept_back_by_its_quota_is_in_nobodys_way() -> None:
    state = a_state(
        a_job("poor", tenant="poor", gpus=2),
        a_job("other", submitted_at=5),
        tenants=[a_tenant("poor", gpus=1), a_tenant()],
    )
    for backfill in BackfillMode:
        assert started(plan_of(state, rules=Rules(backfill=backfill))) == ["other"]


def test_conservative_reserves_for_more_than_the_first() -> None:
    second = a_job("second", gpus=3, submitted_at=2, time_limit_ms=HOUR)
    third = a_job("third", gpus=2, submitted_at=3, time_limit_ms=HOUR - 10)
    state = a_state(
        a_job("running", gpus=2, time_limit_ms=HOUR),
        a_job("large", gpus=4, submitted_at=1, time_limit_ms=HOUR),
        second,
        third,
        nodes=[a_node(gpus=4)],
    )
    start(state, "running", 0, 1)
    plan = plan_of(state, rules=Rules(backfill=BackfillMode.CONSERVATIVE))
    assert [(r.job_id, r.at) for r in plan.reservations] == [("large", HOUR), ("second", 2 * HOUR)]
    assert started(plan) == ["third"]


def test_without_time_limits_nobody_knows_and_all_may_pass() -> None:
    state = a_busy_box(a_job("small", submitted_at=2), running_limit=None)
    plan = plan_of(state)
    assert (started(plan), plan.reservations) == (["small"], ())


def test_who_has_waited_long_enough_is_passed_by_nobody() -> None:
    state = a_busy_box(a_job("small", submitted_at=2), running_limit=None)
    rules = Rules(backfill=BackfillMode.EASY, hold_after_ms=1000)
    assert started(plan_of(state, now=1000, rules=rules)) == ["small"]
    plan = plan_of(state, now=1001, rules=rules)
    assert started(plan) == []
    assert plan.reservations[0].at == FAR


def test_nobody_is_told_when_one_will_have_ended_of_whom_nobody_knows_when_it_begins() -> None:
    jobs = [
        a_job("running"),
        a_job("large", gpus=4, submitted_at=1, time_limit_ms=500),
        a_job("small", submitted_at=1500),
    ]
    state = a_state(*jobs, nodes=[a_node(gpus=4)])
    start(state, "running", 0)
    rules = Rules(backfill=BackfillMode.CONSERVATIVE, hold_after_ms=1000)
    promises: tuple[BackfillReservation, ...] = ()
    for now in (1500, 1600, 2100):  # what is told is kept: it would be in the first one's way
        plan = schedule(state, now, Fifo(), rules=rules, promises=promises)
        assert started(plan) == []
        assert [(found.job_id, found.at) for found in plan.reservations] == [("large", FAR)]
        promises = plan.reservations


def test_the_hold_is_on_the_emptier_machine() -> None:
    state = a_state(
        a_job("r0", gpus=3),
        a_job("r1", gpus=1),
        a_job("large", gpus=4, submitted_at=1),
        a_job("small", submitted_at=2),
        nodes=[a_node("n0", gpus=4), a_node("n1", gpus=4)],
    )
    start(state, "r0", 0, 1, 2)
    start(state, "r1", 0, node="n1")
    plan = plan_of(state, now=2000, rules=Rules(backfill=BackfillMode.EASY, hold_after_ms=1000))
    assert plan.reservations[0].placement.node_id == "n1"
    assert [s.placement.node_id for s in plan.starts] == ["n0"]


# -- bookings ----------------------------------------------------------------------------------


def a_booked_box(*jobs: object, starts_at: int = 1000, ends_at: int = 5000) -> State:
    """Two GPUs; number 0 is booked."""
    state = a_state(nodes=[a_node(gpus=2)])
    booking = AdvanceReservation(
        "r-1", TenantId("default"), NodeId("n0"), (0,), "A100", starts_at, ends_at, used=True
    )
    state.apply(BookingSet(0, booking))
    submit(state, *jobs)  # type: ignore[arg-type]  # they are jobs
    return state


@pytest.mark.parametrize(
    ("limit", "gpus"), [(990, [0, 1]), (991, [1]), (None, [1])], ids=["in time", "late", "open"]
)
def test_until_a_booking_starts_only_who_is_over_by_then_has_its_gpus(
    limit: int | None, gpus: list[int]
) -> None:
    jobs = [a_job("a", time_limit_ms=limit), a_job("b", time_limit_ms=limit)]
    plan = plan_of(a_booked_box(*jobs), now=10)
    assert sorted(s.placement.shares[0].gpu_index for s in plan.starts) == gpus


def test_only_jobs_that_name_the_booking_run_in_it_and_nowhere_else() -> None:
    jobs = [a_job("in", booking="r-1"), a_job("in too", booking="r-1"), a_job("out", gpus=2)]
    state = a_booked_box(*jobs)
    assert started(plan_of(state, now=999)) == []
    assert started(plan_of(state, now=1000)) == ["in"]
    assert started(plan_of(state, now=5000)) == ["out"]


def test_jobs_on_reserved_gpus_are_preempted_when_the_reservation_starts() -> None:
    state = a_booked_box(a_job("late"), a_job("beside"))
    start(state, "late", 0)
    start(state, "beside", 1)
    plan = plan_of(state, now=1000, rules=Rules(preemption=PreemptionRules()))
    assert [(p.victim, p.to, p.cause) for p in plan.preemptions] == [("late", "r-1", "booking")]
    assert not plan_of(state, now=999, rules=Rules(preemption=PreemptionRules())).preemptions


# -- queues with an order of their own -----------------------------------------------------------


def test_a_queue_with_its_own_order_serves_its_jobs_in_it() -> None:
    queues = [a_queue("own", policy="fifo"), a_queue("plain")]
    jobs = [
        a_job("urgent", queue="own", priority=900, submitted_at=5),
        a_job("old", queue="own", priority=100, submitted_at=1),
        a_job("middle", queue="plain", priority=500, submitted_at=3),
    ]
    state = a_state(*jobs, queues=queues, nodes=[a_node(gpus=3)])
    plan = schedule(state, 10, PriorityWithAging(), policies={"fifo": Fifo()})
    # Its most important job says when the queue is served; its own order says whom.
    assert started(plan) == ["old", "urgent", "middle"]
    assert started(schedule(state, 10, PriorityWithAging())) == ["urgent", "middle", "old"]


@pytest.mark.parametrize(("limit", "starts"), [(None, []), (HOUR, []), (HOUR - 10, ["alone"])])
def test_who_wants_a_node_to_itself_does_not_close_it_to_a_booking(
    limit: int | None, starts: list[str]
) -> None:
    state = a_state(a_job("alone", exclusive=True, time_limit_ms=limit), nodes=[a_node(gpus=4)])
    state.apply(BookingSet(0, a_booking("r-1", 0, 1, starts_at=HOUR, ends_at=2 * HOUR)))
    assert started(plan_of(state)) == starts


def test_a_job_with_a_node_to_itself_is_preempted_for_a_booking_of_other_gpus_there() -> None:
    state = a_state(a_job("alone", exclusive=True), nodes=[a_node(gpus=4)])
    start(state, "alone", 2)
    state.apply(BookingSet(0, a_booking("r-1", 0, 1, starts_at=0, ends_at=HOUR)))
    plan = plan_of(state, rules=Rules(preemption=PreemptionRules()))
    assert [(p.victim, p.to) for p in plan.preemptions] == [("alone", "r-1")]


def test_many_that_cannot_be_served_take_no_reservation_from_who_can() -> None:
    gpus = [a_gpu(0), a_gpu(1), a_gpu(2), a_gpu(3, problem="lost")]
    large = [a_job(f"large {n}", gpus=4, cpus=n) for n in range(1, 7)]
    late = [a_job("mid", gpus=3, submitted_at=1), a_job("small", submitted_at=2)]
    state = a_state(a_job("running"), *large, *late, nodes=[a_node(gpus=gpus)])
    start(state, "running", 0)
    plan = plan_of(state, now=HOUR + 1, rules=Rules(backfill=BackfillMode.EASY, hold_after_ms=HOUR))
    assert [found.job_id for found in plan.reservations] == ["mid"]
    assert started(plan) == []
