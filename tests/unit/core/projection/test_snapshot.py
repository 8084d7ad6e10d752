"""Snapshots: who is taken along, who is not, and what they have in common with the state."""

from tests.builders import (
    a_job,
    a_node,
    a_queue,
    a_state,
    a_tenant,
    end,
    hold,
    requeue,
    run,
    start,
)
from tgpu.core.model.events import MixSet, TimePassed
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.request_profile import RequestProfile, RequestShape
from tgpu.core.model.tenant import Budget, Window
from tgpu.core.policies import order_policy
from tgpu.core.policies.slots import ChoicePolicy, Policy
from tgpu.core.projection.snapshot import fill, picture, state_of
from tgpu.core.state.cluster_state import State

FIFO = order_policy("fifo")


def copy_of(state: State, most: int = 100, policy: Policy = FIFO) -> State:
    return state_of(picture(state, state.now, policy, {}, most))


def taken(state: State, most: int = 100, policy: Policy = FIFO) -> list[str]:
    return sorted(entry.job.job_id for entry in copy_of(state, most, policy).entries())


def test_jobs_on_hold_are_left_out_and_those_that_wait_for_them() -> None:
    state = a_state(a_job("a"), a_job("b", after=("a",)), a_job("c"))
    hold(state, "a")
    assert taken(state) == ["c"]


def test_jobs_that_wait_for_others_come_along_with_them() -> None:
    state = a_state(a_job("a"), a_job("b", after=("a",)))
    start(state, "a", 0)
    found = copy_of(state)
    assert found.pending_count() == 1
    run(found, "a")
    end(found, "a")
    assert len(found.waiting) == 1


def test_jobs_that_can_never_start_are_left_out() -> None:
    state = a_state(a_job("a"), a_job("b", after=("a",)))
    start(state, "a", 0)
    run(state, "a")
    end(state, "a", to=JobState.FAILED)
    assert taken(state) == []


def test_who_waits_for_one_of_them_to_be_over_however_it_ends_comes_along() -> None:
    after_b = (a_job("c", after=("b:any",)), a_job("d", after=("b",)))
    state = a_state(a_job("a"), a_job("b", after=("a",)), *after_b)
    start(state, "a", 0)
    run(state, "a")
    end(state, "a", to=JobState.FAILED)
    assert taken(state) == ["c"]
    assert len(copy_of(state).waiting) == 1  # the next cycle cancels b


def test_jobs_that_back_off_come_along_asleep() -> None:
    state = a_state(a_job("a"))
    start(state, "a", 0)
    requeue(state, "a", eligible_at=5000)
    found = copy_of(state)
    assert [job_id for _, job_id in found.sleeping()] == ["a"]


def test_of_too_many_the_next_in_line_come_along_and_all_that_run() -> None:
    jobs = [a_job(f"j{number}", submitted_at=number) for number in range(5)]
    state = a_state(a_job("r", submitted_at=9), *jobs)
    start(state, "r", 0)
    assert taken(state, most=2) == ["j0", "j1", "r"]
    assert not picture(state, 0, FIFO, {}, 2).is_whole


def test_an_order_that_only_others_know_is_not_asked() -> None:
    def never(*_: object) -> None:
        raise AssertionError("asked")

    policy = ChoicePolicy("theirs", never)
    state = a_state(a_job("a", submitted_at=1), a_job("b"), a_job("c", submitted_at=2))
    assert taken(state, 2, policy) == ["a", "b"]


def test_queues_nodes_and_what_runs_are_the_same() -> None:
    state = a_state(
        a_job("a", queue="night"), nodes=[a_node("n1"), a_node("n0")], queues=[a_queue("night")]
    )
    start(state, "a", 0, node="n1")
    found = copy_of(state)
    assert found.ledger.node_ids() == ["n0", "n1"]
    assert found.ledger.queues.keys() == state.ledger.queues.keys()
    assert found.ledger.node(state.ledger.node_ids()[1]).gpu_millis == {0: 1000}


def test_many_jobs_are_put_there_piece_by_piece() -> None:
    state = a_state(*(a_job(f"j{number:03}") for number in range(450)))
    made = State()
    sizes = [made.live_count() for _ in fill(made, picture(state, 0, FIFO, {}, 1000))]
    assert sizes == [0, 200, 400]
    assert made.live_count() == 450


def test_what_the_state_does_meanwhile_is_not_in_the_picture() -> None:
    state = a_state(a_job("a"), a_job("b"))
    found = picture(state, 0, FIFO, {}, 100)
    start(state, "a", 0)
    assert sorted(state_of(found).counts.items()) == [(JobState.PENDING, 2)]


def test_the_learnt_mix_comes_along() -> None:
    state = a_state(a_job("a"))
    state.apply(MixSet(0, RequestProfile(((RequestShape(500), 10_000),))))
    assert copy_of(state).ledger.request_profile == state.ledger.request_profile


def test_what_was_used_comes_along() -> None:
    budget = Budget(9 * 3_600_000_000, Window.DAY)
    state = a_state(a_job("a"), a_job("b"), tenants=[a_tenant(budget=budget)])
    state.ledger.most_jobs = 7
    state.apply(TimePassed(1000))
    start(state, "a", 0, at=1000)
    run(state, "a", at=1000)
    end(state, "a", at=5000)  # over: of the jobs alone nobody could tell
    state.apply(TimePassed(6000))
    found = copy_of(state)
    assert found.meters.by_owner == state.meters.by_owner
    assert found.budgets.spends == state.budgets.spends != {}
    assert found.now == 6000
    assert found.ledger.most_jobs == 7
