"""`place` finds a place exactly when there is one, and none is better by the documented score."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_state, a_tenant, carry_out, end_anyhow, start, submit
from tests.property.placement_oracle import (
    best_rank,
    fewest_nodes,
    rank_of_placement,
    types_to_try,
    workers_on,
)
from tgpu.core.capacity.ledger import Ledger, NodeUse
from tgpu.core.check import check_invariants, check_plan
from tgpu.core.cycle import schedule
from tgpu.core.model.heat import Heat
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Job, Request, Where, class_of
from tgpu.core.model.node import Gpu, GpuName, Node, Placement
from tgpu.core.model.plan import Plan, Start
from tgpu.core.placement.place import could_ever_hold, place, workers_that_fit
from tgpu.core.policies import order_policy
from tgpu.core.state.cluster_state import State

seeds = st.integers(0, 2**32)
TYPES = ("A100", "H100")
LABELS = (("zone", "a"), ("zone", "b"), ("disk", "fast"))
NODES = ("n0", "n1", "n2", "n3")
POLICY = order_policy("priority", 60)


def a_random_node(rng: Random, node_id: str) -> Node:
    mixed = rng.random() < 0.2
    gpu_type = rng.choice(TYPES)
    linked = rng.choice((None, 2, 4))
    gpus = [
        Gpu(
            index,
            f"{node_id}-{index}",
            rng.choice(TYPES) if mixed else gpu_type,
            rng.choice((40_000, 80_000)) if mixed else 80_000,
            nvlink_group=None if linked is None else index // linked,
            numa_node=rng.choice((None, 0, 1)) if mixed else index // 2,
            slice_of=0 if rng.random() < 0.05 else None,
            paused="by hand" if rng.random() < 0.05 else None,
            heat=rng.choice((Heat.COOL, Heat.COOL, Heat.COOL, Heat.WARM, Heat.HOT)),
        )
        for index in range(rng.choice((1, 2, 4, 5)))
    ]
    labels = tuple(label for label in LABELS if rng.random() < 0.5)
    return Node(NodeId(node_id), tuple(gpus), rng.choice((4_000, 64_000)), 10_000, labels=labels)


def a_random_where(rng: Random) -> Where:
    there = [GpuName(NodeId(node), index) for node in NODES for index in range(4)]
    names = tuple(rng.sample(there, len(there)))
    where = Where(
        same_island=rng.random() < 0.2,
        spread=rng.random() < 0.2,
        exclusive=rng.random() < 0.15,
    )
    if rng.random() < 0.6:
        return where
    changes = rng.choice(
        (
            {"gpu_types": rng.choice((("H100", "A100"), ("A100",), ("T4", "H100")))},
            {"gpu_mem_each_mib": rng.choice((30_000, 60_000))},
            {"gpus": rng.choice(((0, 1), (1, 2, 3), names[:5], (0, *names[5:7])))},
            {"not_gpus": rng.choice(((0,), names[:3]))},
            {"nodes": rng.choice((("n1",), ("n2", "n0", "gone")))},
            {"not_nodes": ("n0",)},
            {"labels": (rng.choice(LABELS),)},
        )
    )
    return replace(where, **changes)


def a_random_job(rng: Random, job_id: str) -> Job:
    workers = rng.choice((1, 1, 2, 3, 4))
    request = Request(
        rng.choice((100, 250, 300, 500, 700, 1000, 1000, 1500, 2000, 3000)) * workers,
        rng.choice((None, None, *TYPES)),
        rng.choice((0, 0, 0, 50_000)),
        rng.choice((0, 0, 0, 2_000)) * workers,
        rng.choice((0, 0, 0, 3_000)) * workers,
        workers,
        a_random_where(rng),
    )
    return Job(JobId(job_id), TenantId("default"), rng.choice((0, 1)), 0, request)


def a_random_state(rng: Random) -> State:
    """A few nodes on which jobs have come and gone."""
    limits = {"A100": rng.choice((1, 4))} if rng.random() < 0.1 else None
    nodes = [a_random_node(rng, node_id) for node_id in NODES[: rng.randint(1, 4)]]
    state = a_state(nodes=nodes, tenants=[a_tenant(by_type=limits)])
    for number in range(rng.randint(0, 12)):
        job = a_random_job(rng, f"old{number}")
        found = place(state.ledger, class_of(job))
        if found is not None:
            submit(state, job)
            start(state, job.job_id, placement=found)
        running = sorted(entry.job.job_id for entry in state.placed())
        if running and rng.random() < 0.4:
            end_anyhow(state, rng.choice(running))
    return state


@given(seed=seeds)
@settings(max_examples=150)
def test_a_place_is_found_exactly_when_one_exists(seed: int) -> None:
    rng = Random(seed)
    state = a_random_state(rng)
    for number in range(6):
        job = a_random_job(rng, f"probe{number}")
        found = place(state.ledger, class_of(job))
        able = [t for t in types_to_try(state, job) if fewest_nodes(state, job, t) is not None]
        assert (found is not None) == bool(able), job
        if found is not None:
            first = able[0] if job.request.where.gpu_types else found.gpu_type
            assert found.gpu_type == first
            submit(state, job)
            check_plan(state, Plan((Start(job.job_id, found),)))


@given(seed=seeds)
@settings(max_examples=150)
def test_no_place_of_one_worker_is_better(seed: int) -> None:
    rng = Random(seed)
    state = a_random_state(rng)
    for number in range(6):
        job = a_random_job(rng, f"probe{number}")
        millis = job.request.gpu_millis // job.request.workers
        job = replace(job, request=replace(job.request, gpu_millis=millis, workers=1))
        found = place(state.ledger, class_of(job))
        if found is None:
            continue
        types = [found.gpu_type] if job.request.where.gpu_types else types_to_try(state, job)
        ranked = [
            (rank, node_id, gpu_type)
            for gpu_type in types
            for node_id, use in state.ledger.nodes.items()
            if (rank := best_rank(use, job, gpu_type)) is not None
        ]
        rank = rank_of_placement(state, job, found)
        assert (rank, found.node_id, found.gpu_type) == min(ranked), job


@given(seed=seeds)
def test_a_gang_is_on_as_few_nodes_as_it_can_be(seed: int) -> None:
    rng = Random(seed)
    state = a_random_state(rng)
    for number in range(6):
        job = a_random_job(rng, f"probe{number}")
        found = place(state.ledger, class_of(job))
        if found is not None and not job.request.where.spread:
            used = len({part.node_id for part in found.parts()})
            assert used == fewest_nodes(state, job, found.gpu_type), job


@given(seed=seeds)
def test_workers_that_fit_counts_what_a_search_finds(seed: int) -> None:
    rng = Random(seed)
    state = a_random_state(rng)
    job = a_random_job(rng, "probe")
    for use in state.ledger.nodes.values():
        for gpu_type in TYPES:
            if job.request.gpu_type in (None, gpu_type) and (
                gpu_type in (job.request.where.gpu_types or TYPES)
            ):
                fits = min(job.request.workers, workers_that_fit(use, class_of(job), gpu_type))
                assert fits == workers_on(use, job, gpu_type)


def _afresh(state: State) -> Ledger:
    """The same books, written by somebody who was not there."""
    ledger = Ledger()
    for node_id in sorted(state.ledger.nodes, reverse=True):
        ledger.set_node(state.ledger.nodes[node_id].node)
    ledger.set_tenant(state.ledger.tenant(TenantId("default")).tenant)
    for entry in sorted(state.placed(), key=lambda entry: entry.job.job_id):
        assert entry.progress.placement is not None
        ledger.take(entry.job, entry.progress.placement)
    return ledger


@given(seed=seeds)
def test_what_was_taken_and_given_back_before_makes_no_difference(seed: int) -> None:
    rng = Random(seed)
    state = a_random_state(rng)
    jobs = [a_random_job(rng, f"probe{number}") for number in range(6)]
    expected = [place(_afresh(state), class_of(job)) for job in jobs]
    found = []
    for job in jobs:
        placement = place(state.ledger, class_of(job))
        found.append(placement)
        if placement is not None:
            state.ledger.take(job, placement)
            place(state.ledger, class_of(jobs[0]))
            state.ledger.give(job, placement)
    assert found == expected


def _less_free(rng: Random) -> dict[NodeId, int]:
    return {NodeId(node_id): rng.randint(0, 4) for node_id in NODES if rng.random() < 0.6}


@given(seed=seeds)
def test_a_view_rules_out_and_does_not_rank(seed: int) -> None:
    rng = Random(seed)
    state = a_random_state(rng)
    held = _less_free(rng)

    def view(use: NodeUse) -> NodeUse:
        if use.node.node_id not in held:
            return use
        seen = use.copy()
        seen.gpu_millis[held[use.node.node_id]] = 1000
        return seen

    seen_by_all = _afresh(state)
    for number in range(6):
        job = a_random_job(rng, f"probe{number}")
        found = place(state.ledger, class_of(job), view)
        for node_id in held:
            seen_by_all.nodes[node_id] = (
                view(state.ledger.nodes[node_id])
                if (node_id in state.ledger.nodes)
                else NodeUse(Node(node_id, (), 0, 0))
            )
        seen_by_all._index = None
        assert (found is None) == (place(seen_by_all, class_of(job)) is None), job
        if found is not None:
            for part in found.parts():
                indexes = [share.gpu_index for share in part.shares]
                assert held.get(part.node_id) not in indexes


def _workers(placement: Placement) -> int:
    return len(placement.parts())


@given(seed=seeds)
@settings(max_examples=60)
def test_no_gang_is_ever_half_placed_and_none_waits_for_ever(seed: int) -> None:
    rng = Random(seed)
    nodes = [a_random_node(rng, node_id) for node_id in NODES[: rng.randint(1, 4)]]
    state = a_state(nodes=nodes)
    submit(state, *(a_random_job(rng, f"j{number}") for number in range(12)))
    for now in range(200):
        plan = schedule(state, now, POLICY)
        check_plan(state, plan)
        carry_out(state, plan, now)
        check_invariants(state)
        for entry in state.placed():
            assert entry.progress.placement is not None
            assert _workers(entry.progress.placement) == entry.job.request.workers
        running = sorted(entry.job.job_id for entry in state.placed())
        if not running:
            break
        end_anyhow(state, rng.choice(running))
    well = [replace(node, gpus=tuple(gpu for gpu in node.gpus if gpu.is_usable)) for node in nodes]
    left = [entry.job for entry in state.entries()]
    assert not [job for job in left if could_ever_hold(well, class_of(job))]
