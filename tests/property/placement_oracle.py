"""Placement as its rule reads: every way to lay one worker, every way to spread a gang over nodes.

Counts from the plain facts of nodes and shares what docs/adr/0012 says; nothing here is shared with
the code that places, and nothing is fast.
"""

from collections.abc import Iterator
from itertools import combinations

from tgpu.core.capacity.ledger import NodeUse
from tgpu.core.model.fragmentation import MIX
from tgpu.core.model.heat import Heat
from tgpu.core.model.job import Job
from tgpu.core.model.node import Gpu, GpuChoice, Node, Part, Placement
from tgpu.core.model.units import GPU
from tgpu.core.state.cluster_state import State

Free = dict[int, int]  # thousandths by GPU index
Lay = tuple[tuple[Gpu, int], ...]  # GPUs of one worker with the share of each
Rank = tuple[int, ...]


def types_to_try(state: State, job: Job) -> list[str]:
    """In order of preference; one that the tenant's quota shuts is left out."""
    there = {gpu.gpu_type for use in state.ledger.nodes.values() for gpu in use.node.gpus}
    request, use = job.request, state.ledger.tenant(job.tenant_id)
    found = []
    for gpu_type in request.where.gpu_types or sorted(there):
        limit = use.tenant.max_of_type(gpu_type) if use.tenant.enforce_quota else None
        used = use.gpu_millis_by_type.get(gpu_type, 0)
        within = limit is None or used + request.gpu_millis <= limit
        if request.gpu_type in (None, gpu_type) and gpu_type in there and within:
            found.append(gpu_type)
    return found


def is_named(choices: tuple[GpuChoice, ...], node: Node, gpu: Gpu) -> bool:
    for choice in choices:
        if isinstance(choice, int):
            if choice == gpu.index:
                return True
        elif choice.node_id == node.node_id and choice.gpu_index == gpu.index:
            return True
    return False


def may_have(use: NodeUse, job: Job, gpu_type: str) -> list[Gpu]:
    """GPUs of the node that the job's conditions leave to it, free or not."""
    request, where, node = job.request, job.request.where, use.node
    if (where.nodes and node.node_id not in where.nodes) or node.node_id in where.not_nodes:
        return []
    if not set(where.labels) <= set(node.labels):
        return []
    others = [holding.job.request.where.exclusive for holding in use.holdings.values()]
    if any(others) or (where.exclusive and others):
        return []
    touched = -(-request.gpu_millis // request.workers // GPU)
    return [
        gpu
        for gpu in node.gpus
        if gpu.gpu_type == gpu_type
        and gpu.problem is None
        and gpu.paused is None
        and gpu.foreign is None
        and gpu.heat is not Heat.HOT
        and (not where.gpus or is_named(where.gpus, node, gpu))
        and not is_named(where.not_gpus, node, gpu)
        and gpu.mem_mib >= where.gpu_mem_each_mib
        and gpu.mem_mib * request.gpu_millis >= request.gpu_mem_mib * GPU
        and (gpu.slice_of is None or touched == 1)
    ]


def lays(gpus: list[Gpu], free: Free, job: Job) -> Iterator[Lay]:
    """Every way to lay one worker on these GPUs."""
    whole, rest = divmod(job.request.gpu_millis // job.request.workers, GPU)
    empty = [gpu for gpu in gpus if free[gpu.index] == GPU]
    for chosen in combinations(empty, whole):
        fulls = tuple((gpu, GPU) for gpu in chosen)
        partial = [gpu for gpu in gpus if free[gpu.index] >= rest and gpu not in chosen]
        for lay in [(*fulls, (gpu, rest)) for gpu in partial] if rest else [fulls]:
            groups = {gpu.nvlink_group for gpu, _ in lay}
            apart = len(lay) > 1 and (len(groups) > 1 or None in groups)
            if apart and job.request.where.same_island:
                continue
            yield lay


def most_workers(gpus: list[Gpu], free: Free, job: Job, most: int) -> int:
    """How many workers can be laid one beside the other, by trying everything."""
    if not most:
        return 0
    best = 0
    tried = set()
    for lay in lays(gpus, free, job):
        left = dict(free)
        for gpu, millis in lay:
            left[gpu.index] -= millis
        key = tuple(sorted(left.items()))
        if key not in tried:
            tried.add(key)
            best = max(best, 1 + most_workers(gpus, left, job, most - 1))
        if best == most:
            break
    return best


def workers_on(use: NodeUse, job: Job, gpu_type: str) -> int:
    request = job.request
    gpus = may_have(use, job, gpu_type)
    free = {gpu.index: GPU - use.gpu_millis.get(gpu.index, 0) for gpu in gpus}
    most = request.workers
    if request.cpu_millis:
        spare = use.node.cpu_millis - use.cpu_millis
        most = min(most, max(0, spare) // (request.cpu_millis // request.workers))
    if request.mem_mib:
        spare = use.node.mem_mib - use.mem_mib
        most = min(most, max(0, spare) // (request.mem_mib // request.workers))
    return most_workers(gpus, free, job, most)


def unusable(free: list[int]) -> int:
    """What the mix of requests cannot use, by weight: F of docs/adr/0012."""
    lost, empty = 0, sum(millis == GPU for millis in free)
    for asked, weight in MIX:
        for millis in free:
            holds = millis >= asked if asked < GPU else millis == GPU and empty * GPU >= asked
            lost += 0 if holds else weight * millis
    return lost


def rank_of(lay: Lay, gpus: list[Gpu], free: Free, spread: bool) -> Rank:
    """The score of one worker's place, without the node's id."""
    before = [free[gpu.index] for gpu in gpus]
    after = [free[gpu.index] - dict((g.index, m) for g, m in lay).get(gpu.index, 0) for gpu in gpus]
    islands = {
        (gpu.nvlink_group, None if gpu.nvlink_group is not None else gpu.index) for gpu, _ in lay
    }
    numas = {gpu.numa_node for gpu, _ in lay}
    room, growth = sum(before), unusable(after) - unusable(before)
    partial = [free[gpu.index] for gpu, millis in lay if millis < GPU]
    fullness = partial[0] if partial else 0
    opened = [gpu for gpu, _ in lay if free[gpu.index] == GPU]
    still_empty = [gpu for gpu in gpus if free[gpu.index] == GPU and gpu not in opened]
    broken = {gpu.nvlink_group for gpu in opened} - {None}
    beside = sum(gpu.nvlink_group in broken for gpu in still_empty)
    near = sum(gpu.numa_node in {one.numa_node for one in opened} for gpu in still_empty)
    heat = sum(int(gpu.heat) for gpu, _ in lay)
    if spread:
        return (-room, len(islands), len(numas), -fullness, beside, near, heat)
    return (len(islands), len(numas), growth, room, fullness, beside, near, heat)


def best_rank(use: NodeUse, job: Job, gpu_type: str) -> Rank | None:
    """Of all ways to have one worker on this node."""
    if not workers_on(use, job, gpu_type):
        return None
    gpus = may_have(use, job, gpu_type)
    free = {gpu.index: GPU - use.gpu_millis.get(gpu.index, 0) for gpu in gpus}
    spread = job.request.where.spread
    return min(rank_of(lay, gpus, free, spread) for lay in lays(gpus, free, job))


def rank_of_placement(state: State, job: Job, placement: Placement) -> Rank:
    use = state.ledger.node(placement.node_id)
    gpus = may_have(use, job, placement.gpu_type)
    free = {gpu.index: GPU - use.gpu_millis.get(gpu.index, 0) for gpu in gpus}
    return rank_of(_lay_of(placement.parts()[0], gpus), gpus, free, job.request.where.spread)


def _lay_of(part: Part, gpus: list[Gpu]) -> Lay:
    by_index = {gpu.index: gpu for gpu in gpus}
    return tuple((by_index[share.gpu_index], share.millis) for share in part.shares)


def fewest_nodes(state: State, job: Job, gpu_type: str) -> int | None:
    """How many nodes a gang needs at least; None where all of them are too few."""
    room = sorted(
        (workers_on(use, job, gpu_type) for use in state.ledger.nodes.values()), reverse=True
    )
    left = job.request.workers
    for count, workers in enumerate(room, 1):
        left -= workers
        if left <= 0:
            return count
    return None
