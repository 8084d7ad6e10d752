import pytest

from gpu_scheduler.core.cycle import schedule
from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import class_of
from gpu_scheduler.core.policies import POLICY_NAMES, order_policy
from gpu_scheduler.core.policies.fair_share import FairShare
from gpu_scheduler.core.policies.fifo import Fifo
from gpu_scheduler.core.policies.priority import PriorityWithAging
from tests.builders import a_job, a_node, a_state, a_tenant, started

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
