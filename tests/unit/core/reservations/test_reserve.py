"""When and where a job that cannot start will: from the time limits of others."""

from typing import Any

from tests.builders import a_booking, a_job, a_node, a_state, entry_of, start
from tests.unit.core.stages.drafts import a_draft
from tgpu.core.model.events import BookingSet
from tgpu.core.reservations.reserve import Opening, opening
from tgpu.core.reservations.reserved_capacity import FAR
from tgpu.core.state.cluster_state import State


def two_busy_nodes(first: int | None, second: int | None, **wants: Any) -> State:
    """One job on each of two nodes, with these time limits; `new` wants a whole node."""
    jobs = [
        a_job("a", gpus=2, time_limit_ms=first),
        a_job("b", gpus=2, time_limit_ms=second),
        a_job("new", **{"gpus": 2, **wants}),
    ]
    state = a_state(*jobs, nodes=[a_node("n0", 2), a_node("n1", 2)])
    start(state, "a", 0, 1, node="n0")
    start(state, "b", 0, 1, node="n1")
    return state


def opening_of(state: State, *, patient: bool = False) -> Opening | None:
    draft = a_draft(state, 10)
    job_class = entry_of(state, "new").queue.job_class
    return opening(draft.trial, draft.holds, job_class, 10, patient=patient)


def test_it_is_where_somebody_ends_first() -> None:
    found = opening_of(two_busy_nodes(2000, 1000))
    assert found is not None
    assert (found.at, found.placement.node_id) == (1000, "n1")


def test_a_gang_waits_for_the_last_of_those_it_needs() -> None:
    found = opening_of(two_busy_nodes(2000, 1000, gpus=4, workers=2))
    assert found is not None
    assert found.at == 2000
    assert [part.node_id for part in found.placement.parts()] == ["n0", "n1"]


def test_without_time_limits_nobody_knows_and_who_is_patient_waits_for_ever() -> None:
    state = two_busy_nodes(None, None)
    assert opening_of(state) is None
    found = opening_of(state, patient=True)
    assert found is not None
    assert found.at == FAR


def test_what_is_reserved_then_is_no_opening() -> None:
    state = two_busy_nodes(2000, 1000)
    state.apply(BookingSet(0, a_booking("r-1", 0, starts_at=500, ends_at=3000, node="n1")))
    found = opening_of(state)
    assert found is not None
    assert (found.at, found.placement.node_id) == (2000, "n0")


def test_the_ledger_is_as_it_was() -> None:
    state = two_busy_nodes(2000, 1000)
    opening_of(state)
    assert [len(use.holdings) for use in state.ledger.nodes.values()] == [1, 1]
