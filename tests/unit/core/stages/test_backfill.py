"""What a head that cannot start gets, and what it was told before."""

from typing import Any

import pytest

from tests.builders import a_job, a_node, a_placement, a_state, a_tenant, entry_of, start
from tests.unit.core.stages.drafts import a_draft
from tgpu.core.model.ids import JobId
from tgpu.core.model.plan import BackfillReservation
from tgpu.core.model.rules import BackfillMode, Rules
from tgpu.core.reservations.reserved_capacity import FAR
from tgpu.core.stages.backfill import Backfill
from tgpu.core.stages.draft import Draft
from tgpu.core.state.cluster_state import State

CONSERVATIVE = Rules(BackfillMode.CONSERVATIVE)


def a_busy_box(limit: int | None = 1000, **large: Any) -> State:
    """Two of four GPUs are taken for 1000 ms; `large` wants all four."""
    jobs = [a_job("running", gpus=2, time_limit_ms=limit), a_job("large", **{"gpus": 4, **large})]
    state = a_state(*jobs, nodes=[a_node(gpus=4)], tenants=[a_tenant(), a_tenant("poor", gpus=1)])
    start(state, "running", 0, 1)
    return state


def after_large(state: State, rules: Rules, now: int = 10) -> tuple[Draft, Backfill]:
    draft = a_draft(state, now, rules)
    backfill = Backfill(draft)
    queue = entry_of(state, "large").queue
    assert draft.place(queue) is None
    backfill.reserve(queue, JobId("large"), None)
    return draft, backfill


@pytest.mark.parametrize(
    ("mode", "told", "is_over"),
    [
        (BackfillMode.GREEDY, [], False),
        (BackfillMode.EASY, [("large", 1000)], False),
        (BackfillMode.CONSERVATIVE, [("large", 1000)], False),
        (BackfillMode.STRICT, [], True),
    ],
)
def test_the_rule_decides(mode: BackfillMode, told: list[tuple[str, int]], is_over: bool) -> None:
    draft, backfill = after_large(a_busy_box(), Rules(mode))
    assert [(one.job_id, one.at) for one in draft.reservations] == told
    assert (backfill.is_over, draft.stopped_by) == (is_over, "large" if is_over else None)


def test_under_greedy_who_waited_too_long_gets_a_reservation() -> None:
    rules = Rules(BackfillMode.GREEDY, hold_after_ms=10)
    draft, _ = after_large(a_busy_box(limit=None), rules)
    assert [(one.job_id, one.at) for one in draft.reservations] == [("large", FAR)]


def test_who_is_stopped_by_a_limit_is_in_nobodys_way() -> None:
    for mode in (BackfillMode.EASY, BackfillMode.STRICT):
        draft, backfill = after_large(a_busy_box(tenant="poor"), Rules(mode))
        assert (draft.reservations, backfill.is_over) == ([], False)


def test_what_can_never_start_stops_nobody() -> None:
    _, backfill = after_large(a_busy_box(gpus=5), Rules(BackfillMode.STRICT))
    assert not backfill.is_over


def test_under_easy_only_the_first_has_a_reservation() -> None:
    for rules, count in ((Rules(BackfillMode.EASY), 1), (CONSERVATIVE, 2)):
        draft, backfill = after_large(a_busy_box(time_limit_ms=500), rules)
        backfill.reserve(entry_of(draft.state, "large").queue, JobId("large"), None)
        assert len(draft.reservations) == count


def promised(at: int) -> BackfillReservation:
    return BackfillReservation(JobId("large"), at, a_placement(0, 1, 2, 3))


def test_what_was_promised_is_held_and_redeemed_in_its_turn() -> None:
    state = a_busy_box()
    draft = a_draft(state, 10, CONSERVATIVE)
    backfill = Backfill(draft)
    backfill.keep([promised(500)])
    assert [(one.owner, one.starts_at) for one in draft.holds.owners()] == [("large", 500)]
    queue = entry_of(state, "large").queue
    assert backfill.redeem(queue) == promised(500)
    assert draft.holds.owners() == []
    assert backfill.redeem(queue) is None


def test_the_earlier_of_both_words_counts() -> None:
    for before, at in ((500, 500), (2000, 1000)):
        state = a_busy_box()
        draft = a_draft(state, 10, CONSERVATIVE)
        backfill, queue = Backfill(draft), entry_of(state, "large").queue
        backfill.keep([promised(before)])
        word = backfill.redeem(queue)
        assert draft.place(queue) is None
        backfill.reserve(queue, JobId("large"), word)
        assert [one.at for one in draft.reservations] == [at]


def test_who_was_not_reached_keeps_its_word() -> None:
    draft = a_draft(a_busy_box(), 10, CONSERVATIVE)
    backfill = Backfill(draft)
    backfill.keep([promised(500)])
    backfill.keep_unreached()
    assert draft.reservations == [promised(500)]


@pytest.mark.parametrize("rules", [Rules(BackfillMode.EASY), Rules()])
def test_only_conservative_gives_its_word(rules: Rules) -> None:
    backfill = Backfill(a_draft(a_busy_box(), 10, rules))
    backfill.keep([promised(500)])
    assert backfill.promises == {}


def test_nothing_is_kept_for_who_runs_or_was_told_no_time() -> None:
    backfill = Backfill(a_draft(a_busy_box(), 10, CONSERVATIVE))
    backfill.keep([promised(FAR), BackfillReservation(JobId("running"), 500, a_placement(0))])
    assert backfill.promises == {}
