"""Windows begin where calendars say, meters are exact, and a used-up budget lets nothing start."""

from datetime import UTC, datetime

import pytest

from tests.builders import a_job, a_state, a_tenant, end, entry_of, explain, start, started
from tgpu.core.accounting.budget import (
    DAY_MS,
    NO_SPEND,
    next_change_at,
    percent_reached,
    refusal,
    runs_out_at,
    window_end,
    window_start,
)
from tgpu.core.cycle import schedule
from tgpu.core.model.events import TenantSet, TimePassed
from tgpu.core.model.reasons import ReasonCode
from tgpu.core.model.tenant import Budget, OverBudget, Tenant, Window
from tgpu.core.policies import order_policy
from tgpu.core.state.cluster_state import State

HOUR_MS = 3_600_000
GPU_HOUR = 1000 * HOUR_MS


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("window", "now", "begins", "ends"),
    [
        (Window.DAY, "2026-03-01T00:00", "2026-03-01", "2026-03-02"),
        (Window.DAY, "2026-02-28T23:59:59", "2026-02-28", "2026-03-01"),
        (Window.WEEK, "2026-11-16T00:00", "2026-11-16", "2026-11-23"),
        (Window.WEEK, "2026-11-15T23:59:59", "2026-11-09", "2026-11-16"),
        (Window.MONTH, "2024-02-29T12:00", "2024-02-01", "2024-03-01"),
        (Window.MONTH, "2100-02-28T12:00", "2100-02-01", "2100-03-01"),
        (Window.MONTH, "2026-12-31T23:59:59", "2026-12-01", "2027-01-01"),
        (Window.MONTH, "2027-01-01T00:00", "2027-01-01", "2027-02-01"),
    ],
)
def test_windows_begin_where_calendars_say(
    window: Window, now: str, begins: str, ends: str
) -> None:
    assert window_start(window, at(now)) == at(begins)
    assert window_end(window, at(now)) == at(ends)


def test_every_day_of_four_centuries_is_in_the_month_that_the_calendar_says() -> None:
    first = at("1970-01-01")
    for day in range(146_097):
        if day % 7 and day % 30:
            continue
        now = first + day * DAY_MS
        date = datetime.fromtimestamp(now / 1000, UTC)
        assert window_start(Window.MONTH, now) == at(f"{date.year}-{date.month:02}-01")


def test_the_whole_of_time_has_one_window_without_end() -> None:
    assert window_start(Window.TOTAL, at("2026-11-16")) == 0
    assert window_end(Window.TOTAL, at("2026-11-16")) is None


def test_a_month_beyond_the_calendars_still_has_a_beginning_and_an_end() -> None:
    far = 2**53
    begins, ends = window_start(Window.MONTH, far), window_end(Window.MONTH, far)
    assert ends is not None
    assert begins <= far < ends
    assert 28 <= (ends - begins) // DAY_MS <= 31


def test_a_job_that_spans_midnight_is_split_to_the_millisecond() -> None:
    spend = NO_SPEND.changed(+2000, at("2026-11-15T23:00")).changed(-2000, at("2026-11-16T00:30"))
    assert spend.day == GPU_HOUR  # two GPUs for half an hour since midnight
    assert spend.week == GPU_HOUR  # the 16th is a Monday
    assert spend.month == 3 * GPU_HOUR
    assert spend.total == 3 * GPU_HOUR


def test_a_meter_that_nobody_read_for_windows_counts_only_the_last() -> None:
    spend = NO_SPEND.changed(+1000, at("2026-10-01")).upto(at("2026-11-16T05:00"))
    assert spend.day == 5 * GPU_HOUR
    assert spend.month == (15 * 24 + 5) * GPU_HOUR


def test_a_clock_that_was_set_back_counts_nothing_twice() -> None:
    spend = NO_SPEND.changed(+1000, 10 * HOUR_MS).upto(12 * HOUR_MS)
    assert spend.upto(11 * HOUR_MS) == spend
    assert spend.changed(-1000, 11 * HOUR_MS).total == 2 * GPU_HOUR


def a_budgeted_tenant(
    hours: float = 2, action: OverBudget = OverBudget.HOLD, window: Window = Window.DAY
) -> Tenant:
    return a_tenant(budget=Budget(round(hours * GPU_HOUR), window, action))


def test_only_hold_and_stop_refuse() -> None:
    spend = NO_SPEND.changed(1000, 0)
    now = 3 * HOUR_MS
    assert refusal(a_budgeted_tenant(action=OverBudget.WARN), spend, now) is None
    assert refusal(a_budgeted_tenant(), spend, HOUR_MS) is None
    for action in (OverBudget.HOLD, OverBudget.STOP):
        refused = refusal(a_budgeted_tenant(action=action), spend, now)
        assert refused is not None
        assert refused.fact("spent") == 3 * GPU_HOUR
        assert refused.fact("until") == DAY_MS


def test_what_was_spent_is_noticed_at_80_and_at_100_percent() -> None:
    budget = Budget(10 * GPU_HOUR, Window.DAY)
    spend = NO_SPEND.changed(1000, 0)
    reached = [percent_reached(budget, spend, hours * HOUR_MS) for hours in (7, 8, 9, 10, 11)]
    assert reached == [0, 80, 80, 100, 100]


def test_a_budget_runs_out_at_the_present_rate_or_not_in_this_window() -> None:
    budget = Budget(10 * GPU_HOUR, Window.DAY)
    assert runs_out_at(budget, NO_SPEND, 0) is None
    assert runs_out_at(budget, NO_SPEND.changed(2000, 0), HOUR_MS) == 5 * HOUR_MS
    assert runs_out_at(budget, NO_SPEND.changed(100, 0), HOUR_MS) is None
    assert runs_out_at(budget, NO_SPEND.changed(2000, 0), 6 * HOUR_MS) == 6 * HOUR_MS


def test_the_next_change_is_a_notice_then_the_end_then_the_next_window() -> None:
    budget = Budget(10 * GPU_HOUR, Window.DAY)
    spend = NO_SPEND.changed(1000, 0)
    moments = [next_change_at(budget, spend, hours * HOUR_MS) for hours in (0, 8, 10)]
    assert moments == [8 * HOUR_MS, 10 * HOUR_MS, DAY_MS]


def a_spender(action: OverBudget = OverBudget.HOLD) -> State:
    """Job `a` has one GPU, `j` waits."""
    state = a_state(a_job("a"), a_job("j"), tenants=[a_budgeted_tenant(action=action)])
    start(state, "a", 0, at=HOUR_MS)
    return state


def test_a_job_is_held_from_the_instant_the_budget_is_used_up_until_the_next_window() -> None:
    state = a_spender()
    policy = order_policy("priority", 60)
    state.apply(TimePassed(3 * HOUR_MS - 1))
    assert started(schedule(state, state.now, policy)) == ["j"]
    state.apply(TimePassed(3 * HOUR_MS))
    assert started(schedule(state, state.now, policy)) == []
    found = explain(state, entry_of(state, "j"))
    assert found.code is ReasonCode.BUDGET
    assert found.fact("until") == DAY_MS
    assert state.wakes_at() == DAY_MS
    state.apply(TimePassed(DAY_MS))
    assert started(schedule(state, state.now, policy)) == ["j"]


def test_a_raised_budget_lets_jobs_start_at_once() -> None:
    state = a_spender()
    state.apply(TimePassed(4 * HOUR_MS))
    assert state.ledger.over_budget
    state.apply(TenantSet(state.now, a_budgeted_tenant(hours=8)))
    assert not state.ledger.over_budget


def test_a_budget_set_late_counts_what_was_used_before_it() -> None:
    state = a_state(a_job("a"), a_job("j"))
    start(state, "a", 0, at=0)
    end(state, "a", at=3 * HOUR_MS)
    state.apply(TimePassed(4 * HOUR_MS))
    state.apply(TenantSet(state.now, a_budgeted_tenant()))
    assert explain(state, entry_of(state, "j")).code is ReasonCode.BUDGET


def test_the_state_wakes_when_a_running_tenant_reaches_its_budget() -> None:
    state = a_spender()
    state.apply(TimePassed(HOUR_MS))
    assert state.wakes_at() == HOUR_MS + round(1.6 * HOUR_MS)


def test_a_restored_state_goes_on_where_the_meter_stood() -> None:
    state = a_spender()
    restored = State()
    restored.apply(TenantSet(0, a_budgeted_tenant()))
    restored.budgets.load(state.budgets.spends)
    for node_use in state.ledger.nodes.values():
        restored.ledger.set_node(node_use.node)
    for entry in state.entries():
        restored.restore(entry.job, entry.progress)
    later = 5 * HOUR_MS
    tenant_id = entry_of(state, "a").job.tenant_id
    assert restored.budgets.spends == state.budgets.spends
    assert restored.budgets.spend(tenant_id).upto(later).total == 4 * GPU_HOUR


def test_a_job_restored_without_a_meter_counts_from_its_start() -> None:
    state = a_spender()
    restored = State()
    restored.apply(TenantSet(0, a_budgeted_tenant()))
    for node_use in state.ledger.nodes.values():
        restored.ledger.set_node(node_use.node)
    for entry in state.entries():
        restored.restore(entry.job, entry.progress)
    assert restored.budgets.spends == state.budgets.spends
