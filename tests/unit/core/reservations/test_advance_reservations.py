"""Which GPUs a booking gets, when it ends, and what becomes of it when its GPUs do not."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import (
    a_booking,
    a_gpu,
    a_job,
    a_node,
    a_state,
    a_tenant,
    end,
    entry_of,
    hold,
    requeue,
    run,
    start,
    submit,
    waiting_ids,
)
from tgpu.core.check import check_invariants
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.events import BookingRemoved, BookingSet, NodeSet, TimePassed
from tgpu.core.model.heat import Heat
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.tenant import UserLimits
from tgpu.core.model.units import GPU
from tgpu.core.reservations.advance_reservations import (
    OVER,
    AdvanceReservationRequest,
    Refusal,
    Unbookable,
    booked_at_most,
    broken,
    choose,
    due,
    moves,
    unused_cause,
)
from tgpu.core.state.cluster_state import State


def wanted(gpus: int = 1, starts_at: int = 1000, ends_at: int = 2000, **fields: Any):
    tenant = TenantId(fields.pop("tenant", "default"))
    return AdvanceReservationRequest("new", tenant, gpus, starts_at, ends_at, **fields)


def book(state: State, *bookings: AdvanceReservation) -> None:
    for booking in bookings:
        state.apply(BookingSet(state.now, booking))


def chosen(state: State, request: AdvanceReservationRequest, now: int = 0) -> AdvanceReservation:
    found = choose(state, request, now)
    assert isinstance(found, AdvanceReservation), found
    return found


def refused(state: State, request: AdvanceReservationRequest, now: int = 0) -> Unbookable:
    found = choose(state, request, now)
    assert isinstance(found, Unbookable), found
    return found


# -- choose --------------------------------------------------------------------------------------


def test_a_booking_has_whole_gpus_of_one_node_and_type():
    found = chosen(a_state(), wanted(4, user="ann", unused_ms=60))
    assert found == AdvanceReservation(
        "new",
        TenantId("default"),
        NodeId("n0"),
        (0, 1, 2, 3),
        "A100",
        1000,
        2000,
        user="ann",
        unused_ms=60,
    )


def test_a_node_that_a_job_has_to_itself_is_not_free():
    state = a_state(a_job("alone", exclusive=True), nodes=[a_node("n0", 2), a_node("n1", 4)])
    start(state, "alone", 0)
    assert chosen(state, wanted(1)).node_id == "n1"


def test_types_are_not_mixed():
    gpus = [a_gpu(0), a_gpu(1, "H100"), a_gpu(2, "H100")]
    state = a_state(nodes=[a_node(gpus=gpus)])
    assert chosen(state, wanted(2)).gpus == (1, 2)
    assert refused(state, wanted(3)) == Unbookable(Refusal.TOO_MANY, limit=2)


def test_the_wanted_type_and_node_are_taken():
    state = a_state(nodes=[a_node("n0", 2), a_node("n1", 2), a_node("n2", 2, "H100")])
    assert chosen(state, wanted(node_id=NodeId("n1"))).node_id == "n1"
    assert chosen(state, wanted(gpu_type="H100")).node_id == "n2"


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (wanted(3), Unbookable(Refusal.TOO_MANY, limit=2)),
        (wanted(gpu_type="V100"), Unbookable(Refusal.NO_SUCH_GPU, there=("A100",))),
        (wanted(node_id=NodeId("n9")), Unbookable(Refusal.NO_SUCH_NODE, there=("n0",))),
    ],
    ids=["more than a node has", "no such type", "no such node"],
)
def test_what_can_never_be_is_refused(request_, refusal):
    assert refused(a_state(nodes=[a_node(gpus=2)]), request_) == refusal


def test_without_any_node_nothing_can_be_booked():
    assert refused(a_state(nodes=[]), wanted()).code is Refusal.NO_NODE


def test_gpus_that_are_lost_or_paused_are_not_booked():
    gpus = [a_gpu(0, problem="lost"), a_gpu(1, paused="fan"), a_gpu(2)]
    state = a_state(nodes=[a_node(gpus=gpus)])
    assert chosen(state, wanted()).gpus == (2,)
    assert refused(state, wanted(2)) == Unbookable(Refusal.UNWELL, limit=1)


def test_a_hot_gpu_is_the_last_choice():
    gpus = [a_gpu(0, heat=Heat.HOT), a_gpu(1), a_gpu(2)]
    state = a_state(nodes=[a_node(gpus=gpus)])
    assert chosen(state, wanted(2)).gpus == (1, 2)
    assert chosen(state, wanted(3)).gpus == (0, 1, 2)


def test_bookings_may_follow_each_other_on_a_gpu():
    state = a_state(nodes=[a_node(gpus=1)])
    book(state, a_booking("r-1", 0, starts_at=1000, ends_at=2000))
    assert chosen(state, wanted(starts_at=2000, ends_at=3000)).gpus == (0,)
    assert chosen(state, wanted(starts_at=0, ends_at=1000)).gpus == (0,)


def test_a_refusal_says_from_when_it_would_be_possible():
    state = a_state(nodes=[a_node(gpus=2)])
    book(
        state,
        a_booking("r-1", 0, starts_at=500, ends_at=1500),
        a_booking("r-2", 0, 1, starts_at=2000, ends_at=4000),
    )
    request = wanted(2, starts_at=1000, ends_at=2000)
    assert refused(state, request) == Unbookable(Refusal.BOOKED, limit=1, free_at=4000)
    shorter = replace(request, ends_at=1400)
    assert refused(state, shorter).free_at == 1500


def test_gpus_that_are_free_by_then_go_before_those_whose_jobs_are_preempted():
    jobs = [
        a_job("stays", preemptible=False),
        a_job("gives-way"),
        a_job("over-by-then", time_limit_ms=900),
    ]
    state = a_state(*jobs, nodes=[a_node(gpus=3)])
    for index, job in enumerate(jobs):
        start(state, job.job_id, index)
    assert [chosen(state, wanted(n)).gpus for n in (1, 2, 3)] == [(2,), (1, 2), (0, 1, 2)]


def test_jobs_of_a_tenant_that_is_never_preempted_go_last():
    tenants = [a_tenant(), a_tenant("firm", allow_preemption=False)]
    state = a_state(a_job("a", "firm"), a_job("b"), nodes=[a_node(gpus=2)], tenants=tenants)
    start(state, "a", 0)
    start(state, "b", 1)
    assert chosen(state, wanted()).gpus == (1,)


def test_a_node_with_less_conflict_is_preferred():
    state = a_state(a_job("a"), nodes=[a_node("n0", 2), a_node("n1", 4)])
    start(state, "a", 0)
    assert chosen(state, wanted(2)).node_id == "n1"


def test_among_equals_the_node_with_the_least_to_spare_is_taken():
    state = a_state(nodes=[a_node("n0", 8), a_node("n1", 4)])
    assert chosen(state, wanted(4)).node_id == "n1"


def test_gpus_of_one_island_are_preferred():
    islands = [0, 1, 1, 0, 1, 1]
    gpus = [a_gpu(index, nvlink_group=group) for index, group in enumerate(islands)]
    state = a_state(nodes=[a_node(gpus=gpus)])
    assert chosen(state, wanted(4)).gpus == (1, 2, 4, 5)
    assert chosen(state, wanted(2)).gpus == (0, 3)


def test_a_tenant_books_no_more_at_once_than_its_quota():
    state = a_state(tenants=[a_tenant(gpus=4)])
    book(state, a_booking("r-1", 0, 1, 2, starts_at=1500, ends_at=2500))
    assert refused(state, wanted(2)) == Unbookable(Refusal.QUOTA, limit=4, booked=3)
    assert chosen(state, wanted(1)).gpus == (3,)
    assert chosen(state, wanted(4, ends_at=1500)).gpus == (0, 1, 2, 3)


def test_a_user_books_no_more_at_once_than_their_limit_inside_the_tenant():
    limits = (("ada", UserLimits(max_gpu_millis=2 * GPU)),)
    state = a_state(tenants=[a_tenant(gpus=4, limits_by_user=limits)])
    book(state, replace(a_booking("r-1", 0, starts_at=1500, ends_at=2500), user="ada"))
    found = refused(state, wanted(2, user="ada"))
    assert found == Unbookable(Refusal.USER_QUOTA, limit=2, booked=1)
    assert chosen(state, wanted(1, user="ada")).gpus
    assert chosen(state, wanted(2, user="ada", ends_at=1500)).gpus
    assert len(chosen(state, wanted(3, user="bob")).gpus) == 3
    assert len(chosen(state, wanted(3)).gpus) == 3


def test_a_quota_that_is_not_enforced_does_not_limit_bookings():
    state = a_state(tenants=[a_tenant(gpus=1, enforce_quota=False)])
    assert len(chosen(state, wanted(3)).gpus) == 3


def test_a_quota_of_a_type_leads_to_another_type():
    state = a_state(
        nodes=[a_node("n0", 4), a_node("n1", 4, "H100")], tenants=[a_tenant(by_type={"A100": 1})]
    )
    assert chosen(state, wanted(2)).gpu_type == "H100"
    found = refused(state, wanted(2, gpu_type="A100"))
    assert found == Unbookable(Refusal.QUOTA, limit=1, there=("A100",))


def test_what_a_tenant_has_booked_is_counted_at_its_peak():
    state = a_state()
    book(
        state,
        a_booking("r-1", 0, 1, starts_at=0, ends_at=1000),
        a_booking("r-2", 2, starts_at=500, ends_at=1500),
        a_booking("r-3", 0, 1, starts_at=1000, ends_at=2000),
        a_booking("r-4", 3, 4, 5, starts_at=500, ends_at=1500, tenant="other"),
    )
    owner = TenantId("default")
    assert booked_at_most(state.ledger, owner, 0, 500) == 2
    assert booked_at_most(state.ledger, owner, 0, 2000) == 3
    assert booked_at_most(state.ledger, owner, 2000, 3000) == 0


# -- due -----------------------------------------------------------------------------------------


def test_a_booking_ends_when_its_time_is_over():
    state = a_state()
    book(state, a_booking("r-1", 0))
    assert due(state, 1999) == ()
    assert due(state, 2000) == (("r-1", OVER),)


def test_an_unused_booking_is_given_back():
    state = a_state()
    book(state, a_booking("r-1", 0, ends_at=10_000_000, unused_ms=900_000))
    assert due(state, 900_999) == ()
    assert due(state, 901_000) == (("r-1", "nothing ran in it within 15 minutes of its start"),)


@pytest.mark.parametrize(
    ("unused_ms", "words"),
    [(60_000, "1 minute of"), (90_000, "90 seconds of"), (500, "1 second of"), (0, "0 seconds")],
)
def test_the_cause_names_the_time_as_people_do(unused_ms, words):
    assert f"nothing ran in it within {words}" in unused_cause(unused_ms)


def test_a_booking_that_was_used_is_kept_until_it_ends():
    state = a_state()
    book(state, a_booking("r-1", 0, unused_ms=10, used=True))
    assert due(state, 1500) == ()


def test_a_booking_is_kept_while_a_job_of_it_runs_waits_or_is_held():
    state = a_state()
    book(state, a_booking("r-1", 0, unused_ms=10))
    submit(state, a_job("j1", booking="r-1"))
    assert due(state, 1500) == ()
    hold(state, "j1")
    assert due(state, 1500) == ()
    hold(state, "j1", held=False)
    start(state, "j1", 0)
    assert due(state, 1500) == ()
    end(state, "j1")
    assert [booking_id for booking_id, _ in due(state, 1500)] == ["r-1"]


def test_the_state_wakes_for_each_instant_of_a_booking():
    state = a_state()
    book(state, a_booking("r-1", 0, unused_ms=100))
    woken = []
    while (at := state.wakes_at()) is not None:
        woken.append(at)
        state.apply(TimePassed(at))
    assert woken == [1000, 1100, 2000]


# -- jobs of a booking that is gone --------------------------------------------------------------


def test_jobs_that_wait_for_a_booking_that_is_gone_are_given_up():
    state = a_state()
    book(state, a_booking("r-1", 0), a_booking("r-2", 1))
    submit(state, a_job("j1", booking="r-1"), a_job("j2", booking="r-2"), a_job("j3"))
    state.apply(BookingRemoved(0, "r-1", "cancelled"))
    assert state.unsatisfiable() == [("j1", "reservation r-1 it runs in is over")]
    assert waiting_ids(state) == ["j2", "j3"]
    check_invariants(state)
    end(state, "j1", JobState.CANCELLED)
    check_invariants(state)


def test_a_job_that_runs_outlives_its_booking_and_is_given_up_when_it_comes_back():
    state = a_state()
    book(state, a_booking("r-1", 0))
    submit(state, a_job("j1", booking="r-1", requeue=True))
    start(state, "j1", 0)
    run(state, "j1")
    state.apply(BookingRemoved(0, "r-1", OVER))
    assert state.unsatisfiable() == []
    requeue(state, "j1")
    assert [job_id for job_id, _ in state.unsatisfiable()] == ["j1"]
    check_invariants(state)


def test_a_job_restored_without_its_booking_is_given_up():
    before = a_state()
    book(before, a_booking("r-1", 0))
    submit(before, a_job("j1", booking="r-1"))
    entry = entry_of(before, "j1")
    after = a_state()
    after.restore(entry.job, entry.progress)
    assert after.unsatisfiable_cause(JobId("j1")) is not None


# -- GPUs that are lost --------------------------------------------------------------------------


def lose(state: State, node: str, *indexes: int, of: int = 4) -> None:
    gpus = [a_gpu(i, problem="lost" if i in indexes else None) for i in range(of)]
    state.apply(NodeSet(0, a_node(node, gpus)))


def test_a_booking_that_lost_a_gpu_gets_another_of_its_node():
    state = a_state(nodes=[a_node(gpus=4)])
    book(state, a_booking("r-1", 0, 1, user="ann", unused_ms=5))
    assert moves(state, 0) == ()
    lose(state, "n0", 0)
    assert broken(state, 0) == (("r-1", "GPU 0 of node n0: lost"),)
    assert moves(state, 0) == (a_booking("r-1", 1, 2, user="ann", unused_ms=5),)


def test_a_booking_moves_to_another_node_where_its_own_has_too_few():
    state = a_state(nodes=[a_node("n0", 4), a_node("n1", 4, "H100"), a_node("n2", 4)])
    book(state, a_booking("r-1", 0, 1, 2, 3))
    lose(state, "n0", 0)
    assert moves(state, 0) == (a_booking("r-1", 0, 1, 2, 3, node="n2"),)


def test_a_booking_whose_node_is_gone_moves():
    state = a_state(nodes=[a_node("n1", 2)])
    book(state, a_booking("r-1", 0, node="n0"))
    assert broken(state, 0) == (("r-1", "node n0 is gone"),)
    assert moves(state, 0) == (a_booking("r-1", 0, node="n1"),)


def test_a_booking_in_which_jobs_run_stays_on_its_node():
    state = a_state(nodes=[a_node("n0", 2), a_node("n1", 2)])
    book(state, a_booking("r-1", 0, 1))
    submit(state, a_job("j1", booking="r-1"))
    start(state, "j1", 0)
    lose(state, "n0", 1, of=2)
    assert moves(state, 1000) == ()
    assert len(broken(state, 1000)) == 1


def test_two_bookings_that_move_at_once_do_not_meet():
    state = a_state(nodes=[a_node("n0", 4), a_node("n1", 1)])
    book(state, a_booking("r-1", 0), a_booking("r-2", 1))
    lose(state, "n0", 0, 1, 3)
    first, second = moves(state, 0)
    assert {(first.node_id, first.gpus), (second.node_id, second.gpus)} == {
        ("n0", (2,)),
        ("n1", (0,)),
    }


def test_a_booking_that_is_over_is_not_moved():
    state = a_state()
    book(state, a_booking("r-1", 0))
    lose(state, "n0", 0)
    assert moves(state, 2000) == ()
