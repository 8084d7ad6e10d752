import pytest

from tests.builders import a_job, a_node, a_queue, a_state, a_tenant, started
from tgpu.core.accounting.meter import SCALE, Meter, Meters, look_ahead
from tgpu.core.cycle import schedule
from tgpu.core.model.ids import DEFAULT_TENANT, JobId, TenantId
from tgpu.core.model.job import class_of
from tgpu.core.policies import (
    POLICY_NAMES,
    QUEUE_NAMES,
    RANKED_NAMES,
    OrderOptions,
    order_policies,
    order_policy,
)
from tgpu.core.policies.fair_share import FairShare
from tgpu.core.policies.fifo import Fifo
from tgpu.core.policies.priority import PriorityWithAging
from tgpu.core.policies.shortest import Shortest

MINUTE = 60_000


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_every_listed_policy_is_found_by_its_name(name: str) -> None:
    assert order_policy(name, 60).name == name


def test_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="no scheduling policy 'lottery'; there are: priority"):
        order_policy("lottery", 60)


@pytest.mark.parametrize("seconds", [0, -1])
def test_aging_needs_a_positive_time(seconds: int) -> None:
    with pytest.raises(ValueError, match="aging_seconds must be at least 1"):
        order_policy("priority", seconds)


@pytest.mark.parametrize(
    ("submitted_at", "now", "effective"),
    [
        (0, 0, 5),
        (0, MINUTE - 1, 5),
        (0, MINUTE, 6),
        (0, 10 * MINUTE, 15),
        (1, 0, 4),  # floor, also below zero
        (MINUTE, 0, 4),
        (-MINUTE, 0, 6),
    ],
)
def test_priority_grows_by_one_for_each_full_minute_waited(submitted_at, now, effective) -> None:
    policy = PriorityWithAging(aging_ms=MINUTE)
    order = policy.at(a_state(), now)
    key = order.sort_key(class_of(a_job(priority=5)), None, submitted_at, JobId("j1"))
    assert key == (-effective, submitted_at, "j1")


def test_priority_serves_the_important_then_the_older_then_the_smaller_id() -> None:
    state = a_state(
        a_job("c", priority=1, submitted_at=0),
        a_job("b", priority=9, submitted_at=5),
        a_job("d", priority=9, submitted_at=4),
        a_job("a", priority=9, submitted_at=5),
    )
    assert started(schedule(state, 5, PriorityWithAging())) == ["d", "a", "b", "c"]


def test_an_old_job_passes_a_more_important_new_one() -> None:
    state = a_state(
        a_job("new", priority=10, submitted_at=10 * MINUTE),
        a_job("old", priority=1, submitted_at=0),
    )
    assert started(schedule(state, 10 * MINUTE, PriorityWithAging())) == ["old", "new"]


def test_fifo_looks_at_no_priority() -> None:
    state = a_state(
        a_job("late", priority=999, submitted_at=2), a_job("early", priority=1, submitted_at=1)
    )
    assert started(schedule(state, 5, Fifo())) == ["early", "late"]


def test_fair_share_alternates_between_tenants_as_they_are_served() -> None:
    jobs = [a_job(f"{tenant}{n}", tenant=tenant) for tenant in ("x", "y") for n in range(2)]
    state = a_state(*jobs, tenants=[a_tenant("x"), a_tenant("y")])
    assert started(schedule(state, 0, FairShare())) == ["x0", "y0", "x1", "y1"]


def test_fair_share_gives_a_heavier_tenant_more() -> None:
    jobs = [a_job(f"{tenant}{n}", tenant=tenant) for tenant in ("x", "y") for n in range(3)]
    tenants = [a_tenant("x"), a_tenant("y", weight_millis=2000)]
    state = a_state(*jobs, tenants=tenants, nodes=[a_node(gpus=3)])
    assert started(schedule(state, 0, FairShare())) == ["x0", "y0", "y1"]


def test_a_step_of_ageing_can_be_more_than_one_point() -> None:
    order = PriorityWithAging(MINUTE, aging_step=5).at(a_state(), 3 * MINUTE)
    assert order.sort_key(class_of(a_job(priority=1)), None, 0, JobId("j")) == (-16, 0, "j")


def test_without_a_step_nobody_ages() -> None:
    policy = order_policy("priority", 60, OrderOptions(aging_step=0))
    key = policy.at(a_state(), 999 * MINUTE).sort_key(
        class_of(a_job(priority=7)), None, 0, JobId("j")
    )
    assert key == (-7, 0, "j")


@pytest.mark.parametrize("name", ["priority", "fairshare"])
def test_a_deadline_that_comes_nearer_passes_a_higher_priority(name: str) -> None:
    state = a_state(
        a_job("high", priority=900), a_job("due", priority=500, deadline_at=10 * MINUTE)
    )
    assert started(schedule(state, MINUTE, order_policy(name))) == ["high", "due"]
    assert started(schedule(state, 9 * MINUTE, order_policy(name))) == ["due", "high"]


def test_a_queue_s_wait_target_passes_a_higher_priority() -> None:
    state = a_state(
        a_job("high", priority=900),
        a_job("aimed", priority=500, queue="fast"),
        queues=[a_queue("fast", wait_target_ms=MINUTE)],
    )
    assert started(schedule(state, MINUTE, PriorityWithAging())) == ["aimed", "high"]


def test_shortest_takes_the_least_gpu_time_and_those_without_a_limit_last() -> None:
    state = a_state(
        a_job("unlimited"),
        a_job("long", gpus=1, time_limit_ms=10 * MINUTE),
        a_job("wide", gpus=4, time_limit_ms=2 * MINUTE),
        a_job("short", gpus=1, time_limit_ms=MINUTE),
    )
    assert started(schedule(state, 0, Shortest())) == ["short", "wide", "long", "unlimited"]


def test_shortest_passes_nobody_over_longer_than_the_bound() -> None:
    state = a_state(
        a_job("old", submitted_at=0),
        a_job("older", submitted_at=-1),
        a_job("short", submitted_at=MINUTE, time_limit_ms=1),
    )
    policy = Shortest(bound_ms=2 * MINUTE)
    assert started(schedule(state, 2 * MINUTE - 1, policy)) == ["short", "older", "old"]
    assert started(schedule(state, 2 * MINUTE, policy)) == ["older", "short", "old"]
    assert started(schedule(state, 2 * MINUTE + 1, policy)) == ["older", "old", "short"]


def test_backfill_has_the_order_of_the_policy_it_goes_over() -> None:
    state = a_state(
        a_job("late", priority=999, submitted_at=2), a_job("early", priority=1, submitted_at=1)
    )
    over_fifo = order_policy("backfill", 60, OrderOptions(backfill_over="fifo"))
    assert started(schedule(state, 5, over_fifo)) == ["early", "late"]
    assert started(schedule(state, 5, order_policy("backfill"))) == ["late", "early"]


def test_backfill_goes_over_no_backfill() -> None:
    with pytest.raises(ValueError, match="backfill goes over one of priority, fifo"):
        order_policy("backfill", 60, OrderOptions(backfill_over="backfill"))


def test_a_step_of_ageing_is_not_negative() -> None:
    with pytest.raises(ValueError, match="aging_step must be at least 0"):
        order_policy("priority", 60, OrderOptions(aging_step=-1))


def test_queues_may_name_every_policy_but_those_that_are_about_all_who_run() -> None:
    assert list(order_policies()) == list(QUEUE_NAMES)
    assert set(RANKED_NAMES) == {"las", "adaptive"}
    assert not set(RANKED_NAMES) & set(QUEUE_NAMES)


def test_who_had_more_of_late_comes_later_although_nobody_holds_anything() -> None:
    jobs = [a_job(f"{tenant}0", tenant=tenant) for tenant in ("x", "y")]
    state = a_state(*jobs, tenants=[a_tenant("x"), a_tenant("y")])
    state.meters.by_owner[TenantId("x"), None] = Meter(5000 * SCALE, 0, 0)
    assert started(schedule(state, 0, FairShare())) == ["y0", "x0"]


def test_what_was_had_counts_less_with_time() -> None:
    jobs = [a_job(f"{tenant}{n}", tenant=tenant) for tenant in ("x", "y") for n in range(2)]
    state = a_state(*jobs, tenants=[a_tenant("x"), a_tenant("y")])
    hour_of_a_gpu = look_ahead(state.meters.half_life_ms) * 1000
    state.meters.by_owner[TenantId("x"), None] = Meter(hour_of_a_gpu * 3 // 2, 0, 0)
    assert started(schedule(state, 0, FairShare())) == ["y0", "y1", "x0", "x1"]
    later = 20 * state.meters.half_life_ms
    assert started(schedule(state, later, FairShare())) == ["y0", "x0", "y1", "x1"]


def test_inside_a_tenant_the_user_with_less_comes_first() -> None:
    state = a_state(
        *(a_job(f"{user}{n}", user=user) for user in ("ann", "bob") for n in range(2)),
        nodes=[a_node(gpus=4)],
    )
    assert started(schedule(state, 0, FairShare())) == ["ann0", "bob0", "ann1", "bob1"]
    state.meters.by_owner[DEFAULT_TENANT, "ann"] = Meter(5000 * SCALE, 0, 0)
    assert started(schedule(state, 0, FairShare())) == ["bob0", "bob1", "ann0", "ann1"]


def test_without_a_half_life_only_what_is_held_decides() -> None:
    jobs = [a_job(f"{tenant}0", tenant=tenant) for tenant in ("x", "y")]
    state = a_state(*jobs, tenants=[a_tenant("x"), a_tenant("y")])
    state.meters = Meters(0)
    state.meters.by_owner[TenantId("x"), None] = Meter(5000 * SCALE, 0, 0)
    assert started(schedule(state, 0, FairShare())) == ["x0", "y0"]
