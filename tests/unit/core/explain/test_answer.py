"""The reason that the cycle itself has for passing a job by."""

import pytest

from tests.builders import (
    a_booking,
    a_job,
    a_node,
    a_placement,
    a_state,
    entry_of,
    run,
    start,
    submit,
)
from tests.unit.core.explain.worlds import ask, decider
from tgpu.core.explain.answer import why
from tgpu.core.model import lifecycle
from tgpu.core.model.events import BookingSet, JobMoved, TimePassed
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import Move
from tgpu.core.model.reasons import Reason, ReasonCode
from tgpu.core.model.rules import BackfillMode, PreemptionRules, Rules
from tgpu.core.policies.slots import ChoicePolicy
from tgpu.core.state.cluster_state import State

EASY = Rules(backfill=BackfillMode.EASY)
STRICT = Rules(backfill=BackfillMode.STRICT)


def one_waits_for_all(*others: object, limit: int | None = 5000) -> State:
    """Of two GPUs one is taken until 5000; `big` wants both."""
    state = a_state(
        a_job("a", time_limit_ms=limit),
        a_job("big", gpus=2, submitted_at=1),
        *others,  # type: ignore[arg-type]  # jobs, which the caller knows
        nodes=[a_node(gpus=2)],
    )
    start(state, "a", 0)
    return state


def test_who_starts_in_the_next_cycle_is_told_so() -> None:
    assert ask(a_state(a_job("j"))).reason == Reason(ReasonCode.NEXT_CYCLE)


def test_who_comes_after_others_that_start_waits_for_what_they_take() -> None:
    state = a_state(a_job("a"), a_job("j", submitted_at=1), nodes=[a_node(gpus=1)])
    told = ask(state)
    assert told.reason.code is ReasonCode.GPUS_BUSY
    assert [blocker.job_id for blocker in told.blockers] == ["a"]


def test_a_reservation_says_when_the_job_starts_at_the_latest() -> None:
    told = ask(one_waits_for_all(), "big", EASY)
    assert told.reason.code is ReasonCode.GPUS_BUSY
    assert told.starts_by == 5000


def test_who_may_not_pass_a_reservation_is_told_whose_and_how_short_it_would_have_to_be() -> None:
    state = one_waits_for_all(a_job("j", submitted_at=2, time_limit_ms=9000))
    facts = (("job", "big"), ("at", 5000), ("limit", 5000), ("requested", 9000))
    assert ask(state, "j", EASY).reason == Reason(ReasonCode.BEHIND_RESERVATION, facts)


def test_a_reservation_whose_instant_nobody_knows_is_told_as_such() -> None:
    state = one_waits_for_all(a_job("j", submitted_at=2), limit=None)
    state.apply(TimePassed(10))
    told = ask(state, "j", Rules(hold_after_ms=5))
    assert told.reason.code is ReasonCode.BEHIND_RESERVATION
    assert (told.reason.fact("job"), told.reason.fact("at")) == ("big", 0)


def test_under_strict_the_first_that_cannot_start_is_named() -> None:
    state = one_waits_for_all(a_job("j", submitted_at=2))
    assert ask(state, "j", STRICT).reason == Reason(ReasonCode.STRICT_LINE, (("job", "big"),))


def test_under_strict_who_has_no_room_anyway_is_told_that() -> None:
    state = one_waits_for_all(a_job("j", gpus=2, priority=1, submitted_at=2))
    assert ask(state, "j", STRICT).reason.code is ReasonCode.GPUS_BUSY


def with_preemption() -> State:
    """`a` is preempted for `vip`, which will have both GPUs."""
    state = a_state(
        a_job("a", priority=1), a_job("vip", gpus=2, priority=900), nodes=[a_node(gpus=2)]
    )
    start(state, "a", 0)
    run(state, "a")
    return state


def claimed(state: State) -> State:
    asked = lifecycle.ask_preemption(JobId("a"), entry_of(state, "a").progress, JobId("vip"), "why")
    state.apply(JobMoved(0, JobId("a"), Move.STOP, asked))
    place = a_placement(0, 1)
    claim = lifecycle.nominate(JobId("vip"), entry_of(state, "vip").progress, place)
    state.apply(JobMoved(0, JobId("vip"), Move.NOMINATE, claim))
    return state


def test_a_job_that_others_are_preempted_for_names_them() -> None:
    told = ask(claimed(with_preemption()), "vip")
    assert told.reason == Reason(ReasonCode.PROMISED, (("jobs", "a"),))
    assert [blocker.job_id for blocker in told.blockers] == ["a"]


def test_so_does_one_that_others_will_be_preempted_for_in_the_next_cycle() -> None:
    told = ask(with_preemption(), "vip", Rules(preemption=PreemptionRules()))
    assert told.reason == Reason(ReasonCode.PROMISED, (("jobs", "a"),))


def test_a_place_that_is_being_cleared_for_another_is_not_to_be_had() -> None:
    state = claimed(with_preemption())
    submit(state, a_job("j", priority=1))
    assert ask(state).reason == Reason(ReasonCode.PLACE_KEPT, (("job", "vip"),))


def test_gpus_that_are_booked_are_named_with_the_booking() -> None:
    state = a_state(a_job("j", time_limit_ms=5000), nodes=[a_node(gpus=1)])
    state.apply(BookingSet(0, a_booking("r-1", 0, starts_at=1000, ends_at=2000)))
    assert ask(state).reason.code is ReasonCode.BOOKED
    assert dict(ask(state).reason.facts) == {
        "booking": "r-1",
        "at": 1000,
        "until": 2000,
        "limit": 1000,
        "node": "n0",
    }


def test_a_job_of_a_booking_starts_when_that_does() -> None:
    state = a_state(nodes=[a_node(gpus=1)])
    state.apply(BookingSet(0, a_booking("r-1", 0, starts_at=1000, ends_at=2000)))
    submit(state, a_job("j", booking="r-1"))
    told = ask(state)
    assert told.reason == Reason(ReasonCode.BOOKING_AHEAD, (("booking", "r-1"), ("at", 1000)))
    assert told.starts_by == 1000


def test_inside_a_booking_only_its_own_gpus_count() -> None:
    state = a_state(nodes=[a_node(gpus=4)])
    state.apply(BookingSet(0, a_booking("r-1", 0, starts_at=0, ends_at=2000)))
    submit(state, a_job("a", booking="r-1"), a_job("j", booking="r-1", submitted_at=1))
    start(state, "a", 0)
    told = ask(state)
    assert told.reason.code is ReasonCode.GPUS_BUSY
    assert (told.reason.fact("total"), told.reason.fact("free")) == (1000, 0)
    assert [blocker.job_id for blocker in told.blockers] == ["a"]


@pytest.mark.parametrize("chosen", [True, False])
def test_where_nothing_but_an_installed_policy_is_in_the_way_it_is_named(chosen: bool) -> None:
    state = a_state(a_job("j"))
    everybody = ChoicePolicy("mine", lambda _, jobs: jobs[0])
    decide = decider(state, policy=everybody)
    told = why(state, entry_of(state, "j"), 0, decide, "mine" if chosen else "")
    expected = ReasonCode.NOT_CHOSEN if chosen else ReasonCode.NEXT_CYCLE
    assert told.reason.code is expected
