"""The checks themselves must be able to say no: each is shown a state or plan that is broken."""

from dataclasses import replace

import pytest

from tests.builders import (
    a_gpu,
    a_job,
    a_node,
    a_placement,
    a_queue,
    a_state,
    a_tenant,
    entry_of,
    hold,
    requeue,
    start,
)
from tgpu.core.check import check_invariants, check_plan
from tgpu.core.cycle import schedule
from tgpu.core.errors import InvariantBroken
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.node import Node, Placement, Share
from tgpu.core.model.plan import Plan, Start
from tgpu.core.policies import order_policy
from tgpu.core.state.cluster_state import State


def a_good_state() -> State:
    state = a_state(
        a_job("run"),
        a_job("wait"),
        a_job("sleep"),
        a_job("after", after=("run",)),
        a_job("held"),
    )
    start(state, "run", 0)
    start(state, "sleep", 1)
    requeue(state, "sleep", eligible_at=99)
    hold(state, "held")
    return state


def test_a_good_state_passes() -> None:
    check_invariants(a_good_state())


def _book_a_gpu_twice(state: State) -> None:
    start(state, "wait", 0)


def _forget_a_booking(state: State) -> None:
    state.ledger.give(entry_of(state, "run").job, a_placement(0))


def _miscount(state: State) -> None:
    state.counts[JobState.PENDING] += 1


def _queue_a_held_job(state: State) -> None:
    entry = entry_of(state, "held")
    state.waiting.add(entry.queue, 0, JobId("held"))


def _queue_a_dependent_job(state: State) -> None:
    entry = entry_of(state, "after")
    state.waiting.add(entry.queue, 0, JobId("after"))


def _queue_a_sleeping_job(state: State) -> None:
    entry = entry_of(state, "sleep")
    state.waiting.add(entry.queue, 0, JobId("sleep"))


def _lose_a_waiting_job(state: State) -> None:
    entry = entry_of(state, "wait")
    state.waiting.discard(entry.queue, 0, JobId("wait"))


def _oversleep(state: State) -> None:
    state.now = 99


def _miscount_a_class(state: State) -> None:
    entry_of(state, "wait").queue.members += 1


def _miscount_dependencies(state: State) -> None:
    entry_of(state, "after").unmet = 2


def _forget_a_placed_job(state: State) -> None:
    del state._placed[JobId("run")]


def _miscount_what_is_held(state: State) -> None:
    state.held_squares += 1


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (_miscount_what_is_held, "placed jobs have"),
        (_book_a_gpu_twice, "GPU 0 of node n0 is given 2000"),
        (_forget_a_booking, "the ledger's nodes say"),
        (_miscount, "jobs are pending, counted"),
        (_queue_a_held_job, "job held queued=True"),
        (_queue_a_dependent_job, "job after queued=True"),
        (_queue_a_sleeping_job, "job sleep waits in 2 places"),
        (_lose_a_waiting_job, "job wait queued=False"),
        (_oversleep, "job sleep queued=False"),
        (_miscount_a_class, "members, counted"),
        (_miscount_dependencies, "job after waits for 1, not 2"),
        (_forget_a_placed_job, "have GPUs, listed are"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_a_broken_state_is_found_with_its_facts(damage, sentence: str) -> None:
    state = a_good_state()
    damage(state)
    with pytest.raises(InvariantBroken, match=sentence):
        check_invariants(state)


def test_a_quota_lowered_under_running_jobs_breaks_nothing() -> None:
    state = a_good_state()
    state.ledger.set_tenant(a_tenant(gpus=0))
    check_invariants(state)


def test_the_plan_of_a_cycle_passes() -> None:
    state = a_good_state()
    check_plan(state, schedule(state, 0, order_policy("priority", 60)))


def on(job_id: str, placement: Placement) -> Plan:
    return Plan((Start(JobId(job_id), placement),))


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (on("nobody", a_placement(1)), "unknown job nobody"),
        (on("run", a_placement(1)), "job run, which is not due"),
        (on("held", a_placement(1)), "job held, which is not due"),
        (on("sleep", a_placement(1)), "job sleep, which is not due"),
        (on("after", a_placement(1)), "job after, which is not due"),
        (on("wait", a_placement(0)), "makes GPU 0 2000"),
        (on("wait", a_placement(1, node="n7")), "placed nowhere"),
        (on("wait", a_placement(8)), "GPU 8, which does not exist"),
        (on("wait", a_placement(1, 2)), "asks for .1000., has .1000, 1000."),
        (on("wait", a_placement(1, millis=900)), "asks for"),
        (on("wait", a_placement(1, gpu_type="H100")), "wrong type"),
        (Plan(on("wait", a_placement(1)).starts * 2), "starts job wait 2 times"),
        (Plan(expired=(JobId("nobody"),)), "unknown lease nobody"),
        (Plan(expired=(JobId("run"),)), "job run, which is not a lease"),
        (Plan(unsatisfiable=((JobId("wait"), "why"),)), "gives up job wait, which may start"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_plan_that_breaks_a_rule_is_found(plan: Plan, sentence: str) -> None:
    with pytest.raises(InvariantBroken, match=sentence):
        check_plan(a_good_state(), plan)


@pytest.mark.parametrize(
    ("job", "gpu", "sentence"),
    [
        ({"gpu_mem_mib": 90_000}, {}, "too large for"),
        ({"allowed_gpus": (1,)}, {}, "may not have GPU 0"),
        ({"gpu_type": "H100"}, {}, "wrong type"),
        ({}, {"paused": "for repair"}, "is placed on"),
        ({}, {"problem": "lost"}, "is placed on"),
        ({"cpus": 5}, {}, "5000 cores of 4000"),
        ({"mem_mib": 101}, {}, "101 memory of 100"),
        ({"gpu_mem_each_mib": 90_000}, {}, "too large for"),
        ({"not_gpus": (0,)}, {}, "may not have GPU 0"),
        ({"gpu_types": ("H100",)}, {}, "is on A100"),
        ({"nodes": ("n1",)}, {}, "may not be on node n0"),
        ({"not_nodes": ("n0",)}, {}, "may not be on node n0"),
        ({"labels": (("zone", "a"),)}, {}, "is on a node of"),
        ({"gpus": 2, "workers": 2}, {}, "1 of j's workers start"),
    ],
)
def test_a_start_where_the_job_may_not_be_is_found(job, gpu, sentence: str) -> None:
    node = a_node(gpus=[a_gpu(0, **gpu)], cpus=4, mem_mib=100)
    with pytest.raises(InvariantBroken, match=sentence):
        check_plan(a_state(a_job("j", **job), nodes=[node]), on("j", a_placement(0)))


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({"gpus": 1}, "2000 gpus of 1000"),
        ({"by_type": {"A100": 1}}, "2000 A100 of 1000"),
        ({"max_gpu_mem_mib": 19}, "20 gpu memory of 19"),
        ({"max_cpu_millis": 1999}, "2000 tenant cores of 1999"),
        ({"max_mem_mib": 13}, "14 tenant memory of 13"),
        ({"max_running_jobs": 1}, "2 jobs of 1"),
        (None, "2 elements of 1"),
    ],
    ids=str,
)
def test_quotas_are_counted_start_by_start(limits, what: str) -> None:
    array_max = 1 if limits is None else None
    first = a_job("a", gpu_mem_mib=10, cpus=1, mem_mib=7, array="x", array_max=array_max)
    state = a_state(first, replace(first, job_id=JobId("b")), tenants=[a_tenant(**(limits or {}))])
    plan = Plan((Start(JobId("a"), a_placement(0)), Start(JobId("b"), a_placement(1))))
    check_plan(state, Plan(plan.starts[:1]))
    with pytest.raises(InvariantBroken, match=f"job b makes {what}"):
        check_plan(state, plan)


@pytest.mark.parametrize(
    ("world", "sentence"),
    [
        ({"tenants": [a_tenant(active=False)]}, "tenant default, which is inactive"),
        ({"queues": [a_queue("q", enabled=False)]}, "disabled queue q"),
        ({"queues": [a_queue("q", max_running_jobs=0)]}, "1 jobs of its queue of 0"),
    ],
)
def test_a_start_that_its_queue_or_tenant_forbids_is_found(world, sentence: str) -> None:
    with pytest.raises(InvariantBroken, match=sentence):
        check_plan(a_state(a_job("j", queue="q"), **world), on("j", a_placement(0)))


def _start_of(job: Job, *shares: Share, nodes: tuple[Node, ...] | None = None) -> None:
    state = a_state(a_job("there"), job, nodes=nodes)
    start(state, "there", 7)
    check_plan(state, on("j", Placement(NodeId("n0"), "A100", shares)))


def test_a_start_beside_others_by_who_wants_to_be_alone_is_found() -> None:
    with pytest.raises(InvariantBroken, match="job j is not alone"):
        _start_of(a_job("j", exclusive=True), Share(0, 1000))


def test_a_start_across_islands_by_who_wants_one_is_found() -> None:
    nodes = (a_node(gpus=[a_gpu(i, nvlink_group=i // 4) for i in range(8)]),)
    job = a_job("j", gpus=2, same_island=True)
    _start_of(job, Share(0, 1000), Share(1, 1000), nodes=nodes)
    with pytest.raises(InvariantBroken, match="has islands"):
        _start_of(job, Share(3, 1000), Share(4, 1000), nodes=nodes)


def test_a_start_on_two_slices_is_found() -> None:
    nodes = (a_node(gpus=[a_gpu(i, slice_of=0) for i in range(8)]),)
    with pytest.raises(InvariantBroken, match="joins slices"):
        _start_of(a_job("j", gpus=2), Share(0, 1000), Share(1, 1000), nodes=nodes)


def test_a_start_beside_who_wants_to_be_alone_is_found() -> None:
    state = a_state(a_job("alone", exclusive=True), a_job("j"))
    start(state, "alone", 0)
    with pytest.raises(InvariantBroken, match="joins alone, which wants to be alone"):
        check_plan(state, on("j", a_placement(1)))


def test_half_a_gang_in_the_state_is_found() -> None:
    state = a_state(a_job("j", gpus=2, workers=2))
    start(state, "j", 0)
    with pytest.raises(InvariantBroken, match="1 of the 2 workers of job j are placed"):
        check_invariants(state)


def test_company_of_who_wants_to_be_alone_is_found() -> None:
    state = a_state(a_job("alone", exclusive=True), a_job("j"))
    start(state, "alone", 0)
    check_invariants(state)
    start(state, "j", 1)
    with pytest.raises(InvariantBroken, match="wants it alone"):
        check_invariants(state)
