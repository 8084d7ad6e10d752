"""What is kept for somebody, as others see it."""

from tests.builders import a_booking, a_job, a_node, a_placement, a_state
from tgpu.core.model.events import BookingSet
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import class_of
from tgpu.core.reservations.reserved_capacity import ReservedCapacity
from tgpu.core.state.cluster_state import State


def with_holds() -> tuple[State, ReservedCapacity]:
    """GPU 0 is booked from 1000; job `b` gets GPU 1 at once, then `a` GPU 2 at 500."""
    state = a_state(nodes=[a_node(gpus=4)])
    state.apply(BookingSet(0, a_booking("r-1", 0, starts_at=1000)))
    holds = ReservedCapacity(state.ledger, 0)
    holds.add(a_job("b"), a_placement(1), 0)
    holds.add(a_job("a"), a_placement(2), 500)
    return state, holds


def taken(state: State, holds: ReservedCapacity, limit: int | None = None) -> list[int]:
    """The GPUs that a job with this time limit must leave alone."""
    use = state.ledger.node(NodeId("n0"))
    seen = holds.seen(use, class_of(a_job(time_limit_ms=limit)), 0)
    return sorted(seen.gpu_millis)


def test_who_is_over_before_a_hold_begins_does_not_see_it() -> None:
    state, holds = with_holds()
    assert taken(state, holds) == [0, 1, 2]
    assert taken(state, holds, 1000) == [1, 2]
    assert taken(state, holds, 500) == [1]


def test_owners_are_bookings_and_then_jobs_in_the_order_in_which_they_got_their_place() -> None:
    _, holds = with_holds()
    assert [(hold.owner, hold.starts_at) for hold in holds.owners()] == [
        ("r-1", 1000),
        ("b", 0),
        ("a", 500),
    ]


def test_only_some_can_be_looked_at() -> None:
    state, holds = with_holds()
    fewer = holds.only({"r-1", "a"})
    assert [hold.owner for hold in fewer.owners()] == ["r-1", "a"]
    assert taken(state, fewer) == [0, 2]
    assert taken(state, holds) == [0, 1, 2]


def test_what_was_dropped_has_no_owner() -> None:
    state, holds = with_holds()
    holds.drop(a_job("b").job_id, a_placement(1))
    assert [hold.owner for hold in holds.owners()] == ["r-1", "a"]
    assert taken(state, holds) == [0, 2]


def test_nothing_is_kept_on_a_node_that_has_gone() -> None:
    holds = ReservedCapacity(a_state().ledger, 0)
    holds.add(a_job("b", exclusive=True), a_placement(1, node="gone"), 0)
    assert not holds


def test_without_what_was_dropped_nodes_are_seen_as_they_are() -> None:
    holds = ReservedCapacity(a_state().ledger, 0)
    holds.add(a_job("b"), a_placement(1), 0)
    holds.drop(a_job("b").job_id, a_placement(1))
    assert holds.view(class_of(a_job("c"))) is None
