"""How many GPUs a job could use, against a count of every GPU by hand."""

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_job, a_state, a_tenant
from tests.property.world import TYPES, a_random_node
from tgpu.core.capacity.ledger import NodeUse
from tgpu.core.model.heat import Heat
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.job import Job, class_of
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.units import GPU
from tgpu.core.placement.gpu_count import count_gpus
from tgpu.core.placement.place import place
from tgpu.core.state.cluster_state import State


def a_random_cluster(rng: Random) -> list[Node]:
    nodes = [a_random_node(rng, f"n{number}") for number in range(rng.randint(1, 5))]
    if rng.random() < 0.5:  # machines of one sort, as most clusters have them
        nodes += [
            replace(node, node_id=NodeId(f"{node.node_id}-twin"))
            for node in nodes[: rng.randint(0, 3)]
        ]
    return [replace(n, gpus=tuple(_perhaps_ill(rng, gpu) for gpu in n.gpus)) for n in nodes]


def _perhaps_ill(rng: Random, gpu: Gpu) -> Gpu:
    ill: dict[str, Any] = {
        "paused": "for repair",
        "problem": "lost",
        "foreign": "pid 7",
        "heat": Heat.HOT,
    }
    if rng.random() < 0.8:
        return gpu
    name = rng.choice(sorted(ill))
    return replace(gpu, **{name: ill[name]})


def a_random_job(rng: Random, nodes: list[Node]) -> Job:
    workers = rng.choice((1, 1, 1, 2, 3))
    where: dict[str, Any] = {
        "gpu_types": rng.choice(((), (), ("A100",), ("H100", "A100"))),
        "nodes": rng.choice(((), (), (nodes[0].node_id,))),
        "allowed_gpus": rng.choice(((), (), (0, 1, 3))),
        "exclusive": rng.random() < 0.1,
        "gpu_mem_each_mib": rng.choice((0, 0, 60_000)),
    }
    gpus = workers * rng.choice((0.5, 1, 1, 2, 3))
    gpu_type = None if where["gpu_types"] else rng.choice((None, *TYPES))
    cpus = workers * rng.choice((0, 0, 1, 4))
    return a_job("j", "red", gpus, gpu_type, cpus=cpus, workers=workers, **where)


def filled(rng: Random, nodes: list[Node]) -> State:
    by_type = {"A100": rng.choice((1, 4))} if rng.random() < 0.2 else {}
    state = a_state(nodes=nodes, tenants=[a_tenant("red", by_type=by_type), a_tenant("blue")])
    for number in range(rng.randint(0, 12)):
        job = a_job(f"b{number}", "blue", rng.choice((0.5, 1, 1, 2)), exclusive=rng.random() < 0.1)
        found = place(state.ledger, class_of(job))
        if found is not None:
            state.ledger.take(job, found)
    return state


def by_hand(state: State, job: Job) -> dict[str, tuple[int, int]]:
    """Free thousandths and GPUs in all, by type."""
    uses, request = list(state.ledger.nodes.values()), job.request
    found = {}
    for gpu_type in TYPES:
        limit = dict(state.ledger.tenant(job.tenant_id).tenant.max_gpu_millis_by_type).get(gpu_type)
        rooms = [_room(use, job, gpu_type) for use in uses]
        if sum(rooms) < request.workers or (limit is not None and request.gpu_millis > limit):
            continue
        able = [use for use, room in zip(uses, rooms, strict=True) if room]
        gpus = [(use, gpu) for use in able for gpu in _suitable(use, job, gpu_type)]
        free = [
            GPU - use.gpu_millis.get(gpu.index, 0)
            for use, gpu in gpus
            if gpu.is_usable and not use.closed_by
        ]
        found[gpu_type] = (sum(free), len(gpus))
    return found


def _suitable(use: NodeUse, job: Job, gpu_type: str) -> list[Gpu]:
    where, asked = job.request.where, job.request.gpu_type
    if where.nodes and use.node.node_id not in where.nodes:
        return []
    if (asked and asked != gpu_type) or (where.gpu_types and gpu_type not in where.gpu_types):
        return []
    return [
        gpu
        for gpu in use.node.gpus
        if gpu.gpu_type == gpu_type
        and gpu.mem_mib >= where.gpu_mem_each_mib
        and (not where.gpus or gpu.index in where.gpus)
    ]


def _room(use: NodeUse, job: Job, gpu_type: str) -> int:
    """Workers that an empty, healthy node could have; each has at most one part of a GPU."""
    request, gpus = job.request, len(_suitable(use, job, gpu_type))
    millis = request.gpu_millis // request.workers
    room = gpus * (GPU // millis) if millis <= GPU else gpus * GPU // millis
    cpu = request.cpu_millis // request.workers
    return min(room, use.node.cpu_millis // cpu) if cpu else room


@given(seed=st.integers(0, 2**32))
def test_the_count_is_that_of_every_gpu_by_hand(seed: int) -> None:
    rng = Random(seed)
    nodes = a_random_cluster(rng)
    state = filled(rng, nodes)
    for number in range(4):
        job = a_random_job(rng, nodes)
        count = count_gpus(state.ledger, class_of(job))
        told = {name: (one.free_millis, one.total) for name, one in count.by_type.items()}
        assert told == by_hand(state, job)
        every = list(state.ledger.nodes.values())
        assert count_gpus(state.ledger, class_of(job), every) == count
        gone = state.ledger.nodes[nodes[number % len(nodes)].node_id].holdings
        for holding in list(gone.values())[:1]:  # the next count is on other books
            state.ledger.give(holding.job, holding.placement)
        assert JobId("j") not in gone
