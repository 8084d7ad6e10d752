"""Whoever is on booked GPUs when the booking starts is preempted."""

from typing import Any

import pytest

from tests.builders import a_booking, a_job, a_state, a_tenant, run, start
from tests.unit.core.stages.drafts import a_draft, preempted
from tgpu.core.model.events import BookingSet
from tgpu.core.model.plan import PreemptionCause
from tgpu.core.model.rules import PreemptionRules, Rules
from tgpu.core.stages.draft import Draft
from tgpu.core.stages.preempt_for_reservations import preempt_for_reservations
from tgpu.core.state.cluster_state import State

RULES = Rules(preemption=PreemptionRules())


def on_booked_gpus(allow_preemption: bool = True, **fields: Any) -> State:
    """`a` is on GPUs 0 and 1; 1 and 2 are booked from 1000 until 2000."""
    tenants = [a_tenant(allow_preemption=allow_preemption)]
    state = a_state(a_job("a", gpus=2, **fields), tenants=tenants)
    state.apply(BookingSet(0, a_booking("r-1", 1, 2)))
    start(state, "a", 0, 1)
    run(state, "a")
    return state


def cleared(state: State, now: int, rules: Rules = RULES) -> Draft:
    draft = a_draft(state, now, rules)
    preempt_for_reservations(draft)
    return draft


@pytest.mark.parametrize(
    ("now", "victims"),
    [(999, []), (1000, [("a", "r-1")]), (1999, [("a", "r-1")]), (2000, [])],
)
def test_only_while_it_lasts(now: int, victims: list[tuple[str, str]]) -> None:
    draft = cleared(on_booked_gpus(), now)
    assert preempted(draft) == victims
    assert all(one.cause is PreemptionCause.BOOKING for one in draft.preemptions)


@pytest.mark.parametrize(
    "state",
    [
        on_booked_gpus(booking="r-1"),
        on_booked_gpus(preemptible=False),
        on_booked_gpus(allow_preemption=False),
    ],
    ids=["its own job", "one that may not be preempted", "a tenant that does not allow it"],
)
def test_who_stays(state: State) -> None:
    assert preempted(cleared(state, 1000)) == []


def test_nobody_goes_where_preemption_is_off() -> None:
    assert preempted(cleared(on_booked_gpus(), 1000, Rules())) == []
