"""How many GPUs a class of jobs could use, and how many of them are free, by type.

Counted are the GPUs of every node and type that could have the class if they were free and well:
what it can never have is no part of its answer, and no type that it may have is left out of it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tgpu.core.admission.admit import over_type_quota
from tgpu.core.capacity.ledger import Ledger, NodeUse
from tgpu.core.capacity.node_index import kind_of
from tgpu.core.model.heat import Heat
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import JobClass
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.units import GPU
from tgpu.core.placement.place import eligible, most_workers, shape_of

# Reasons to pause are part of a sort, and people write ever new ones.
_MOST_SORTS: Final = 10_000


@dataclass(slots=True)
class TypeCount:
    """GPUs of one type. Those that are not well are not free."""

    total: int = 0
    free_millis: int = 0
    whole: int = 0  # of which nothing is taken


@dataclass(slots=True)
class GpuCount:
    by_type: dict[str, TypeCount] = field(default_factory=dict)
    nodes: int = 0
    paused: int = 0
    pauses: tuple[str, ...] = ()  # each reason once: a drained node has the same on all its GPUs
    hot: int = 0
    problem: int = 0
    foreign: int = 0

    @property
    def total(self) -> int:
        return sum(one.total for one in self.by_type.values())

    @property
    def free_millis(self) -> int:
        return sum(one.free_millis for one in self.by_type.values())

    @property
    def whole(self) -> int:
        return sum(one.whole for one in self.by_type.values())


def count_gpus(ledger: Ledger, job_class: JobClass, among: list[NodeUse] | None = None) -> GpuCount:
    """Of these nodes, or of all there are."""
    where = job_class.request.where
    if among is not None or where.nodes or where.not_nodes or where.gpus or where.not_gpus:
        uses = list(ledger.nodes.values()) if among is None else among
        return _one_by_one(ledger, job_class, uses)
    return _by_sorts(ledger, job_class)


def _one_by_one(ledger: Ledger, job_class: JobClass, uses: list[NodeUse]) -> GpuCount:
    rooms = [most_workers(use.node, job_class) for use in uses]
    types = _open_types(ledger, job_class, ((room, 1) for room in rooms))
    count = GpuCount()
    for use, room in zip(uses, rooms, strict=True):
        mine = _able(use.node, job_class, room, types)
        count.nodes += bool(mine)
        _add_well_or_not(count, mine, 1)
        for gpu_type, gpus in mine.items():
            free = [] if use.closed_by else [use.free_millis(gpu) for gpu in gpus]
            one = count.by_type[gpu_type]
            one.free_millis += sum(free)
            one.whole += sum(millis == GPU for millis in free)
    return count


def _by_sorts(ledger: Ledger, job_class: JobClass) -> GpuCount:
    """The same by sorts of nodes: thousands of nodes are of a few."""
    sorts = _sorts(ledger)
    examples = {sort: ledger.nodes[node_id].node for node_id, sort in sorts.items()}
    rooms = {sort: most_workers(node, job_class) for sort, node in examples.items()}
    of_a_sort = Counter(sorts.values())
    types = _open_types(ledger, job_class, ((rooms[sort], n) for sort, n in of_a_sort.items()))
    count, able = GpuCount(), dict[int, dict[str, list[Gpu]]]()
    for sort in sorted(examples, key=lambda one: examples[one].node_id):
        mine = able[sort] = _able(examples[sort], job_class, rooms[sort], types)
        count.nodes += of_a_sort[sort] if mine else 0
        _add_well_or_not(count, mine, of_a_sort[sort])
    shape, index = shape_of(job_class.request), ledger.index()
    for gpu_type, one in count.by_type.items():
        for group in index.groups(gpu_type):
            nodes = sum(gpu_type in able[sorts[node_id]] for node_id in group.nodes)
            free = [free for free, kind in group.cells if shape.allows(kind)]
            one.free_millis += nodes * sum(free)
            one.whole += nodes * sum(millis == GPU for millis in free)
    return count


def _sorts(ledger: Ledger) -> dict[NodeId, int]:
    """Which nodes are alike for every request that names neither nodes nor GPUs: kept by the
    ledger until a node changes."""
    if len(ledger.sorts) != len(ledger.nodes):
        if len(ledger.sort_numbers) > _MOST_SORTS:
            ledger.sort_numbers.clear()
            ledger.sorts.clear()
        for node_id in ledger.node_ids():
            if node_id not in ledger.sorts:
                sort = _sort_of(ledger.nodes[node_id].node)
                ledger.sorts[node_id] = ledger.sort_numbers.setdefault(
                    sort, len(ledger.sort_numbers)
                )
    return ledger.sorts


def _sort_of(node: Node) -> tuple[object, ...]:
    gpus = [
        (g.gpu_type, kind_of(g), g.problem is None, g.paused, g.foreign is None) for g in node.gpus
    ]
    return (tuple(gpus), node.cpu_millis, node.mem_mib, node.labels)


def _open_types(
    ledger: Ledger, job_class: JobClass, rooms: Iterable[tuple[dict[str, int], int]]
) -> frozenset[str]:
    """The types on which all of its workers have room, and the tenant's quota of which is left."""
    totals: Counter[str] = Counter()
    for room, nodes in rooms:
        for gpu_type, workers in room.items():
            totals[gpu_type] += workers * nodes
    use, request = ledger.tenant(job_class.tenant_id), job_class.request
    return frozenset(
        gpu_type
        for gpu_type, workers in totals.items()
        if workers >= request.workers and not over_type_quota(use, gpu_type, request.gpu_millis)
    )


def _able(
    node: Node, job_class: JobClass, room: dict[str, int], types: frozenset[str]
) -> dict[str, list[Gpu]]:
    found = eligible(node, job_class)
    return {t: gpus for t, gpus in sorted(found.items()) if room.get(t) and t in types}


def _add_well_or_not(count: GpuCount, gpus_by_type: dict[str, list[Gpu]], nodes: int) -> None:
    for gpu_type, gpus in gpus_by_type.items():
        count.by_type.setdefault(gpu_type, TypeCount()).total += nodes * len(gpus)
        count.paused += nodes * sum(gpu.paused is not None for gpu in gpus)
        count.hot += nodes * sum(gpu.heat is Heat.HOT for gpu in gpus)
        count.problem += nodes * sum(gpu.problem is not None for gpu in gpus)
        count.foreign += nodes * sum(gpu.foreign is not None for gpu in gpus)
        known = (*count.pauses, *(gpu.paused for gpu in gpus if gpu.paused))
        count.pauses = tuple(dict.fromkeys(known))
