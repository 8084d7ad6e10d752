import pytest

from tests.builders import (
    a_gpu,
    a_job,
    a_node,
    a_queue,
    a_state,
    a_tenant,
    carry_out,
    end,
    requeue,
    start,
    started,
)
from tgpu.core.check import check_plan
from tgpu.core.cycle import schedule
from tgpu.core.errors import InvariantBroken
from tgpu.core.model.events import TimePassed
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.plan import Plan
from tgpu.core.policies import order_policy
from tgpu.core.policies.slots import ChoicePolicy
from tgpu.core.state.cluster_state import State


def plan_at(state: State, now: int = 0) -> Plan:
    state.apply(TimePassed(now))
    return schedule(state, now, order_policy("priority", 60))


def test_an_empty_state_gives_an_empty_plan() -> None:
    plan = plan_at(State())
    assert plan == Plan()
    assert not plan


def test_a_job_that_does_not_fit_lets_smaller_ones_pass() -> None:
    state = a_state(
        a_job("large", gpus=8, priority=900), a_job("small", gpus=1), nodes=[a_node(gpus=4)]
    )
    assert started(plan_at(state)) == ["small"]


def test_a_class_goes_on_until_nothing_is_left_for_it() -> None:
    jobs = [a_job(f"j{number}", submitted_at=number) for number in range(5)]
    state = a_state(*jobs, nodes=[a_node(gpus=3)])
    assert started(plan_at(state, 10)) == ["j0", "j1", "j2"]


def test_classes_are_merged_job_by_job() -> None:
    jobs = [a_job(f"j{n}", gpus=1 if n % 2 else 0.5, submitted_at=n) for n in range(4)]
    assert started(plan_at(a_state(*jobs), 10)) == ["j0", "j1", "j2", "j3"]


def test_one_tenant_at_its_quota_does_not_stop_the_next() -> None:
    state = a_state(
        a_job("a", tenant="x", priority=900),
        a_job("b", tenant="x", priority=900),
        a_job("c", tenant="y"),
        tenants=[a_tenant("x", gpus=1), a_tenant("y")],
    )
    assert started(plan_at(state)) == ["a", "c"]


def test_a_steered_tenant_finding_no_room_does_not_close_the_shape_for_others() -> None:
    """The first may not have H100, and no A100 is left; the second may."""
    state = a_state(
        a_job("steered", tenant="x", priority=900),
        a_job("free", tenant="y"),
        nodes=[a_node(gpus=[a_gpu(0, "A100", paused="no"), a_gpu(1, "H100")])],
        tenants=[a_tenant("x", by_type={"H100": 0}), a_tenant("y")],
    )
    assert started(plan_at(state)) == ["free"]


def test_a_list_of_gpus_that_is_taken_does_not_close_the_shape_for_others() -> None:
    state = a_state(
        a_job("picky", priority=900, allowed_gpus=(0,)),
        a_job("easy"),
        nodes=[a_node(gpus=[a_gpu(0, paused="no"), a_gpu(1)])],
    )
    assert started(plan_at(state)) == ["easy"]


def test_an_array_starts_no_more_than_its_cap() -> None:
    jobs = [a_job(f"j{number}", array="x", array_max=2) for number in range(5)]
    assert started(plan_at(a_state(*jobs))) == ["j0", "j1"]


def test_gpus_of_a_lease_that_is_up_are_given_away_in_the_same_cycle() -> None:
    state = a_state(
        a_job("lease", lease=True, time_limit_ms=100), a_job("next"), nodes=[a_node(gpus=1)]
    )
    start(state, "lease", 0)
    assert plan_at(state, 99) == Plan()
    plan = plan_at(state, 100)
    assert (plan.expired, started(plan)) == (("lease",), ["next"])


def test_jobs_that_can_never_start_are_given_up() -> None:
    state = a_state(a_job("a"), a_job("b", after=("a",)))
    end(state, "a", JobState.CANCELLED)
    plan = plan_at(state)
    assert plan.unsatisfiable == (("b", "job a it depends on cancelled"),)
    carry_out(state, plan, 0)
    assert plan_at(state) == Plan()


def test_a_retry_starts_when_its_back_off_is_over() -> None:
    state = a_state(a_job("a"))
    start(state, "a", 0)
    requeue(state, "a", eligible_at=50)
    assert started(plan_at(state, 49)) == []
    assert started(plan_at(state, 50)) == ["a"]


def test_halves_share_a_gpu_and_wholes_do_not() -> None:
    state = a_state(
        a_job("a", gpus=0.5),
        a_job("b", gpus=0.5),
        a_job("c", gpus=0.5),
        nodes=[a_node(gpus=1)],
    )
    assert started(plan_at(state)) == ["a", "b"]


def test_a_higher_queue_comes_first_whatever_the_priority() -> None:
    state = a_state(
        a_job("important", priority=2000),
        a_job("a", queue="fast", priority=1),
        queues=[a_queue("fast", priority=1)],
    )
    assert started(plan_at(state)) == ["a", "important"]


def test_a_queue_starts_no_more_than_its_cap() -> None:
    jobs = [a_job(f"j{number}", queue="q", gpus=number + 1) for number in range(3)]
    state = a_state(*jobs, queues=[a_queue("q", max_running_jobs=2)])
    assert started(plan_at(state)) == ["j0", "j1"]


class TestChoice:
    """A policy that is asked for one job after another."""

    def test_it_decides_the_order(self) -> None:
        state = a_state(a_job("a"), a_job("b"), a_job("c"))
        youngest = ChoicePolicy("youngest", lambda queue, jobs: jobs[-1])
        assert started(schedule(state, 0, youngest)) == ["c", "b", "a"]

    def test_none_serves_no_more_of_the_queue(self) -> None:
        state = a_state(a_job("a"), a_job("b"))
        one = ChoicePolicy("one", lambda queue, jobs: jobs[0] if len(jobs) == 2 else None)
        assert started(schedule(state, 0, one)) == ["a"]

    def test_a_choice_that_does_not_fit_lets_the_next_try(self) -> None:
        state = a_state(a_job("a", gpus=9), a_job("b"))
        first = ChoicePolicy("first", lambda queue, jobs: jobs[0])
        assert started(schedule(state, 0, first)) == ["b"]

    def test_it_is_shown_eligible_jobs_oldest_first_queue_by_queue(self) -> None:
        state = a_state(
            a_job("b", submitted_at=2),
            a_job("a", submitted_at=2, gpus=2),
            a_job("c", submitted_at=1),
            a_job("d", queue="fast"),
            a_job("e", after=("a",)),
            queues=[a_queue("fast", priority=1)],
        )
        shown = []

        def watch(queue, jobs):
            shown.append((queue.name, [job.job_id for job in jobs]))

        schedule(state, 0, ChoicePolicy("watch", watch))
        assert shown == [("fast", ["d"]), ("default", ["c", "a", "b"])]

    def test_a_changed_copy_of_a_job_is_placed_as_the_job_itself(self) -> None:
        state = a_state(a_job("a", gpus=2))
        forger = ChoicePolicy("forger", lambda queue, jobs: a_job("a", gpus=1))
        plan = schedule(state, 0, forger)
        check_plan(state, plan)
        assert len(plan.starts[0].placement.shares) == 2

    def test_a_job_it_was_not_shown_is_refused(self) -> None:
        state = a_state(a_job("a"))
        wild = ChoicePolicy("wild", lambda queue, jobs: a_job("other"))
        with pytest.raises(InvariantBroken, match="policy wild chose job other"):
            schedule(state, 0, wild)
