"""Borrowing limits follow past use by steps, within bounds, and stay put in between."""

from typing import Any

import pytest

from tests.builders import a_tenant
from tgpu.core.accounting.borrowing_limits import AdjustRules, PastUse, adjusted

RULES = AdjustRules(min_borrow=1000, max_borrow=4000, step=500)
BUSY, IDLE = PastUse(10_000, 1000), PastUse(0, 0)


def after(borrow: int | None, past: PastUse, **fields: Any) -> int | None:
    """The new limit of a tenant with ten GPUs of its own; None where it stays."""
    tenant = a_tenant("red", 10, cohort="lab", borrow_millis=borrow, **fields)
    change = adjusted(tenant, past, RULES)
    assert change is None or change.before == borrow
    return None if change is None else change.after


def test_who_used_its_quota_and_has_jobs_waiting_may_borrow_a_step_more() -> None:
    assert after(2000, BUSY) == 2500
    assert after(2000, PastUse(9000, 1)) == 2500


def test_who_used_less_than_half_and_has_nothing_waiting_may_borrow_a_step_less() -> None:
    assert after(2000, IDLE) == 1500
    assert after(2000, PastUse(4999, 0)) == 1500


@pytest.mark.parametrize(
    "past",
    [PastUse(8999, 1000), PastUse(5000, 0), PastUse(10_000, 0), PastUse(0, 1000)],
    ids=["not quite busy", "half in use", "nothing waiting", "waits for something else"],
)
def test_in_between_nothing_changes(past: PastUse) -> None:
    assert after(2000, past) is None


def test_it_stays_within_the_bounds() -> None:
    assert after(4000, BUSY) is None
    assert after(3800, BUSY) == 4000
    assert after(1000, IDLE) is None
    assert after(1200, IDLE) == 1000


def test_a_limit_outside_the_bounds_is_brought_back_within() -> None:
    assert after(9000, PastUse(10_000, 0)) == 4000
    assert after(0, PastUse(10_000, 0)) == 1000


def test_no_limit_counts_as_the_most_that_the_bounds_allow() -> None:
    assert after(None, BUSY) == 4000
    assert after(None, IDLE) == 3500


def test_who_does_not_share_is_left_alone() -> None:
    assert adjusted(a_tenant("red", 10), BUSY, RULES) is None
    assert adjusted(a_tenant("red", cohort="lab"), BUSY, RULES) is None
    assert after(2000, BUSY, enforce_quota=False) is None
