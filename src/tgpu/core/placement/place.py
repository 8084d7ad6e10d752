"""Placement of a job: GPUs of one type, all of its workers or none.

A worker is on one node; a gang is on as few nodes as it can be. Which nodes and GPUs are best is
told in docs/adr/0012: NVLink islands first, then NUMA nodes, then the least fragmentation.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from heapq import heapify, heappop, heapreplace, merge
from typing import Final, NamedTuple

from tgpu.core.admission.admit import over_type_quota
from tgpu.core.capacity.ledger import Ledger, NodeUse, TenantUse
from tgpu.core.capacity.node_index import (
    Group,
    Indexes,
    NodeIndex,
    Ranked,
    cells_of,
    fewest,
    in_order,
    kinds_of,
)
from tgpu.core.capacity.packing import Cells, GpuShape, Score, capacity, count_workers, fit
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import ANYWHERE, JobClass, Request
from tgpu.core.model.node import Gpu, Node, Part, Placement, Share
from tgpu.core.model.rules import PlacementRule
from tgpu.core.model.units import GPU
from tgpu.core.placement.place_by_profile import goes_by_profile, place_by_profile, shares_of

View = Callable[[NodeUse], NodeUse]

_NOTHING: Final = (0, 0)  # cores and memory
_CONSOLIDATED: Final = PlacementRule.CONSOLIDATED  # at hand: looked up for every job


def place(
    ledger: Ledger,
    job_class: JobClass,
    view: View | None = None,
    among: Collection[NodeId] | None = None,
) -> Placement | None:
    """The best placement, or None where there is no room now.

    `view` gives a node as this job must see it, less free than it is. It only rules out: how good
    a node is, is told by the node as it is. With `among`, only these nodes are looked at.
    """
    tenant_use = ledger.tenant(job_class.tenant_id)
    millis = job_class.request.gpu_millis
    if ledger.request_profile is not None and among is None and goes_by_profile(job_class.request):
        by_mix = ledger.profile_index()
        if by_mix is not None:
            return place_by_profile(ledger, by_mix, job_class.request, tenant_use, view)
    if among is None and _is_plain(job_class.request):
        plain = _place_plainly(ledger, job_class.request, tenant_use)
        if plain is None or view is None or _is_seen_as_is(ledger.nodes[plain.node_id], view):
            return plain
    search = _Search(ledger, job_class, view, among)
    best: _Found | None = None
    for gpu_type in search.types():
        if over_type_quota(tenant_use, gpu_type, millis):
            continue
        found = search.best_of(gpu_type)
        if found is not None and (best is None or found.rank < best.rank):
            best = found
            if search.first_type_wins:
                break
    return None if best is None else _placement(best)


def _is_seen_as_is(use: NodeUse, view: View) -> bool:
    return view(use) is use


def _is_plain(request: Request) -> bool:
    """Whether it asks for nothing but GPUs for one worker: most do."""
    return (
        request.workers == 1
        and not request.cpu_millis
        and not request.mem_mib
        and not request.gpu_mem_mib
        and (request.where is ANYWHERE or request.where == ANYWHERE)  # it mostly is
    )


def _place_plainly(ledger: Ledger, request: Request, tenant_use: TenantUse) -> Placement | None:
    """What the search below finds, without all that it need not ask here."""
    index, millis, wanted = ledger.index(), request.gpu_millis, request.gpu_type
    shape = _plain_shape(millis, ledger.placement_rule is _CONSOLIDATED)
    best: Ranked | None = None
    for gpu_type in index.types() if wanted is None else (wanted,):
        if tenant_use.is_limited and over_type_quota(tenant_use, gpu_type, millis):
            continue
        found = index.finder(gpu_type, shape, False).first()
        if found is not None and (best is None or _first(found) < _first(best)):
            best = found
    if best is None:
        return None
    _, _, group, fitted = best
    node_id, gpu_type = group.nodes[0], group.gpu_type
    return Placement(node_id, gpu_type, shares_of(fitted[1][0], index.indexes(node_id, gpu_type)))


@lru_cache(1024)
def _plain_shape(millis: int, tight: bool) -> GpuShape:
    return GpuShape(millis, tight=tight)


def _first(found: Ranked) -> tuple[Score, NodeId, str]:
    return found.score, found.group.nodes[0], found.group.gpu_type


def workers_that_fit(use: NodeUse, job_class: JobClass, gpu_type: str) -> int:
    """How many workers of the class this node could take now, on GPUs of this type."""
    request = job_class.request
    where = request.where
    if not allows_node(use.node, request) or (use.holdings if where.exclusive else use.closed_by):
        return 0
    gpus, shape = _allowed(use.node, request, gpu_type), shape_of(request)
    if shape.same_island:
        fits = capacity(cells_of(kinds_of(gpus), use.gpu_millis)[0], shape)
    else:
        free = [millis for gpu in gpus if (millis := use.free_millis(gpu)) > 0]
        fits = count_workers(free, shape.millis)
    return min(fits, _beside_gpus(use, request, fits))


def eligible(node: Node, job_class: JobClass) -> dict[str, list[Gpu]]:
    """The node's GPUs that could serve this class, free or not, by type."""
    request = job_class.request
    found: dict[str, list[Gpu]] = {}
    if allows_node(node, request):
        shape = shape_of(request)
        for gpu in node.gpus:
            if allows_type(request, gpu.gpu_type) and _allows_gpu(node, gpu, request, shape):
                found.setdefault(gpu.gpu_type, []).append(gpu)
    return found


def could_ever_hold(nodes: Iterable[Node], job_class: JobClass) -> bool:
    """Whether these nodes together, all of them free and well, would do."""
    request = job_class.request
    totals: dict[str, int] = {}
    for node in nodes:
        for gpu_type, workers in most_workers(node, job_class).items():
            totals[gpu_type] = totals.get(gpu_type, 0) + workers
            if totals[gpu_type] >= request.workers:
                return True
    return False


def most_workers(node: Node, job_class: JobClass) -> dict[str, int]:
    """How many workers the node could have if it were free and well, by type of GPU."""
    request, found = job_class.request, {}
    for gpu_type, gpus in eligible(node, job_class).items():
        cells, _ = cells_of(kinds_of(gpus), {})
        fits = capacity(cells, shape_of(request))
        found[gpu_type] = min(fits, _beside_gpus(NodeUse(node), request, fits))
    return found


def allows_node(node: Node, request: Request) -> bool:
    """Whether the job's own conditions leave this node to it."""
    where = request.where
    if where.nodes and node.node_id not in where.nodes:
        return False
    if where.not_nodes and node.node_id in where.not_nodes:
        return False
    return not where.labels or all(label in node.labels for label in where.labels)


def allows_type(request: Request, gpu_type: str) -> bool:
    if request.gpu_type is not None and gpu_type != request.gpu_type:
        return False
    return not request.where.gpu_types or gpu_type in request.where.gpu_types


def shape_of(request: Request) -> GpuShape:
    where = request.where
    each = max(memory_each(request), where.gpu_mem_each_mib)
    return GpuShape(request.gpu_millis // request.workers, each, where.same_island, where.spread)


def gpus_touched(request: Request) -> int:
    """How many GPUs a worker lies on: 1.5 is one whole and half of another."""
    return -(-(request.gpu_millis // request.workers) // GPU)


def memory_each(request: Request) -> int:
    """The memory each GPU must have: a request counts it over all its GPUs together."""
    return -(-request.gpu_mem_mib * GPU // request.gpu_millis) if request.gpu_mem_mib else 0


def pick_shares(free: list[tuple[Gpu, int]], gpu_millis: int) -> tuple[Share, ...] | None:
    """Which of these GPUs of one type, each with what is free of it; None where it cannot be."""
    taken = {gpu.index: GPU - millis for gpu, millis in free}
    cells, indexes = cells_of(kinds_of(gpu for gpu, _ in free), taken)
    found = fit(cells, GpuShape(gpu_millis))
    return None if found is None else shares_of(found.workers[0], indexes)


def _allowed(node: Node, request: Request, gpu_type: str) -> list[Gpu]:
    shape = shape_of(request)
    return [
        gpu
        for gpu in node.gpus
        if gpu.gpu_type == gpu_type and gpu.is_usable and _allows_gpu(node, gpu, request, shape)
    ]


def _allows_gpu(node: Node, gpu: Gpu, request: Request, shape: GpuShape) -> bool:
    if not request.where.allows_gpu(node.node_id, gpu.index):
        return False
    if gpu.mem_mib < shape.mem_each_mib:
        return False
    return gpu.slice_of is None or shape.millis <= GPU  # a program sees one MIG slice at most


def _beside_gpus(use: NodeUse, request: Request, most: int) -> int:
    """For how many workers, up to `most`, the node has cores and memory."""
    _, cpu_millis, mem_mib = request.of_a_worker()
    # A node may have lost cores under jobs that run; who asks for none is not in the way of that.
    if cpu_millis:
        most = min(most, (use.node.cpu_millis - use.cpu_millis) // cpu_millis)
    if mem_mib:
        most = min(most, (use.node.mem_mib - use.mem_mib) // mem_mib)
    return max(0, most)


# -- the search ----------------------------------------------------------------------------------


class _Found(NamedTuple):
    # How many nodes, their scores together, and which they are: no two have the same.
    rank: tuple[int, Score, tuple[NodeId, ...], str]
    parts: tuple[Part, ...]


def _placement(found: _Found) -> Placement:
    first = found.parts[0]
    return Placement(first.node_id, found.rank[3], first.shares, found.parts[1:])


class _Search:
    """One class, looking for its place."""

    def __init__(
        self,
        ledger: Ledger,
        job_class: JobClass,
        view: View | None,
        among: Collection[NodeId] | None,
    ) -> None:
        self._nodes = ledger.nodes
        self._index: NodeIndex = ledger.index()
        self._request = request = job_class.request
        self._where = where = request.where
        self._view = view
        shape = shape_of(request)
        if ledger.placement_rule is PlacementRule.CONSOLIDATED and not shape.spread:
            shape = shape._replace(tight=True)
        self._class = job_class
        self._asked = self._shape = shape
        self._has_limits = bool(request.cpu_millis or request.mem_mib)
        self._needs = request.of_a_worker()[1:] if self._has_limits else _NOTHING
        self._picks_gpus = bool(where.gpus or where.not_gpus)
        self._among = among if among is not None else where.nodes or None
        if where.labels and self._among is None:
            self._among = self._index.with_label(where.labels)
        # Where the job sees every node as the index does, its groups serve.
        self._uses_groups = not self._picks_gpus and self._among is None
        self._picks_nodes = bool(where.nodes or where.not_nodes or where.labels)
        self.first_type_wins = bool(where.gpu_types)

    def types(self) -> Collection[str]:
        wanted, listed = self._request.gpu_type, self._where.gpu_types
        if wanted is not None:
            return (wanted,) if allows_type(self._request, wanted) else ()
        return listed or self._index.types()

    def best_of(self, gpu_type: str) -> _Found | None:
        shape = self._index.usual(gpu_type, self._asked)
        if shape is None:
            return None
        self._shape = shape
        if self._request.workers == 1:
            return self._best_of_one(gpu_type)
        groups = [group for group in self._groups(gpu_type) if group.capacity(shape)]
        if self._has_limits and self._uses_groups:
            groups = [group for group in groups if group.may_spare(self._needs)]
        counts = (self._scattered if shape.spread else self._packed)(groups)
        if counts is not None and shape.tight and len(counts) > self._fewest_nodes(gpu_type):
            return None
        if counts is not None:
            return self._gang(gpu_type, counts)
        if groups and self._has_limits and self._uses_groups:
            self._index.note_spare(gpu_type)
        return None

    def _best_of_one(self, gpu_type: str) -> _Found | None:
        tried = False
        for score, node_id, group in self._by_score(gpu_type):
            tried = True
            workers = self._fitted(node_id, group, 1)
            if workers is not None:
                part = Part(node_id, workers[0])
                return _Found((1, score, (node_id,), gpu_type), (part,))
        if tried and self._has_limits and self._uses_groups:
            self._index.note_spare(gpu_type)
        return None

    def _by_score(self, gpu_type: str) -> Iterator[tuple[Score, NodeId, Group]]:
        if self._uses_groups:
            finder = self._index.finder(gpu_type, self._shape, self._where.exclusive)
            return finder.nodes(self._needs)
        return _ranked(self._groups(gpu_type), self._shape, 1)

    def _groups(self, gpu_type: str) -> Collection[Group]:
        if self._among is not None:
            return self._regrouped(gpu_type, map(NodeId, self._among))
        groups = self._index.groups(gpu_type)
        if self._where.exclusive:
            groups = [group for group in groups if group.is_idle]
        if not self._picks_gpus:
            return groups
        # Which GPU is which is not in the groups; but who has no room at all has none here.
        able = [group for group in groups if group.capacity(self._shape)]
        return self._regrouped(gpu_type, (node_id for group in able for node_id in group.nodes))

    def _regrouped(self, gpu_type: str, node_ids: Iterable[NodeId]) -> list[Group]:
        """Groups of these nodes alone, with only the GPUs that the job leaves to itself."""
        groups: dict[Cells, Group] = {}
        for node_id in sorted({node_id for node_id in node_ids if node_id in self._nodes}):
            use = self._nodes[node_id]
            if use.holdings if self._where.exclusive else use.closed_by:
                continue
            gpus = self._index.usable(node_id, gpu_type)
            if self._picks_gpus:
                gpus = [one for one in gpus if self._where.allows_gpu(node_id, one[1])]
            cells, _ = cells_of(gpus, use.gpu_millis)
            group = groups.get(cells)
            if group is None:
                group = groups[cells] = Group(gpu_type, cells, not use.holdings)
            group.nodes.append(node_id)
        return list(groups.values())

    def _cells(self, use: NodeUse, gpu_type: str) -> tuple[Cells, Indexes]:
        if use.holdings if self._where.exclusive else use.closed_by:
            return (), ()
        gpus = _allowed(use.node, self._request, gpu_type)
        return cells_of(kinds_of(gpus), use.gpu_millis)

    # -- one node ------------------------------------------------------------------------------

    def _seen(self, node_id: NodeId) -> NodeUse | None:
        """The node as the job sees it, where its conditions allow it."""
        use = self._nodes[node_id]
        if self._picks_nodes and not allows_node(use.node, self._request):
            return None
        return use if self._view is None else self._view(use)

    def _most(self, node_id: NodeId, group: Group, most: int) -> int:
        """How many workers, up to `most`, it can have there."""
        seen = self._seen(node_id)
        if seen is None:
            return 0
        if self._has_limits:
            most = min(most, _beside_gpus(seen, self._request, most))
        if seen is not self._nodes[node_id] and most:
            most = min(most, capacity(self._cells(seen, group.gpu_type)[0], self._shape))
        return most

    def _fitted(
        self, node_id: NodeId, group: Group, workers: int
    ) -> list[tuple[Share, ...]] | None:
        """The GPUs of so many workers on a node, or None where they cannot be."""
        seen = self._seen(node_id)
        if seen is None or (
            self._has_limits and _beside_gpus(seen, self._request, workers) < workers
        ):
            return None
        if self._uses_groups and seen is self._nodes[node_id]:
            found = group.fit(self._shape, workers)
            indexes = self._index.indexes(node_id, group.gpu_type)
        else:
            cells, indexes = self._cells(seen, group.gpu_type)
            found = fit(cells, self._shape, workers)
        return None if found is None else [shares_of(picks, indexes) for picks in found.workers]

    # -- gangs ---------------------------------------------------------------------------------

    def _packed(self, groups: Collection[Group]) -> dict[NodeId, tuple[Group, int]] | None:
        """As few nodes as will do: the roomiest, and for those left over the one they fit best."""
        left, shape = self._request.workers, self._shape
        if sum(group.capacity(shape) * len(group.nodes) for group in groups) < left:
            return None
        counts: dict[NodeId, tuple[Group, int]] = {}
        roomiest = self._by_room(groups)
        largest = max(group.capacity(shape) for group in groups)
        while left:
            if left <= largest:
                last = self._last(groups, left, counts)
                if last is not None:
                    counts[last[0]] = (last[1], left)
                    return counts
            found = next(roomiest, None)
            if found is None:
                return None
            node_id, group, most = found
            counts[node_id] = (group, most)
            left -= most
        return counts

    def _by_room(self, groups: Collection[Group]) -> Iterator[tuple[NodeId, Group, int]]:
        """Nodes by how many workers they can have, most first."""
        shape = self._shape
        levels: dict[int, list[Group]] = {}
        for group in groups:
            levels.setdefault(group.capacity(shape), []).append(group)
        # Nodes whose cores or memory are for fewer workers than their GPUs.
        aside: dict[int, list[tuple[Score, NodeId, int, Group]]] = {}
        for level in range(max(levels, default=0), 0, -1):
            waiting = sorted(aside.pop(level, []))
            fresh = _ranked(levels.get(level, []), shape, level)
            held_back: Iterator[tuple[Score, NodeId, Group]] = (
                (score, node_id, group) for score, node_id, _, group in waiting
            )
            for _, node_id, group in merge(fresh, held_back, key=lambda found: found[:2]):
                most = self._most(node_id, group, level)
                if most == level:
                    yield node_id, group, level
                elif most:
                    fitted = group.fit(shape, most)
                    assert fitted is not None  # fewer than its capacity
                    again = (fitted.score, node_id, group.serial, group)
                    aside.setdefault(most, []).append(again)

    def _last(
        self, groups: Collection[Group], workers: int, used: Collection[NodeId]
    ) -> tuple[NodeId, Group] | None:
        able = [group for group in groups if group.capacity(self._shape) >= workers]
        shape = self._shape
        if shape.tight and used:
            shape = shape._replace(spread=True)  # beside whole nodes, what is left over has room
        for _, node_id, group in _ranked(able, shape, workers):
            if node_id not in used and self._most(node_id, group, workers) == workers:
                return node_id, group
        return None

    def _fewest_nodes(self, gpu_type: str) -> int:
        """On how many nodes the gang would be if nobody else were there."""
        workers = self._request.workers
        if self._uses_groups and not self._picks_nodes and not self._has_limits:
            return self._index.fewest_nodes(gpu_type, self._shape, workers)
        ids = self._nodes if self._among is None else map(NodeId, self._among)
        nodes = [self._nodes[node_id].node for node_id in ids if node_id in self._nodes]
        rooms = [(most_workers(node, self._class).get(gpu_type, 0), 1) for node in nodes]
        return fewest(rooms, workers)

    def _scattered(self, groups: Collection[Group]) -> dict[NodeId, tuple[Group, int]] | None:
        """Each worker where most is free by then; of equal nodes the first by id."""
        shape, left = self._shape, self._request.workers
        # Less what is free, its id, how many it has, how many it can have.
        open_nodes: list[tuple[int, NodeId, int, int]] = []
        by_node: dict[NodeId, Group] = {}
        for score, node_id, group in _ranked(groups, shape, 1):
            if len(open_nodes) == left:
                break
            most = self._most(node_id, group, min(left, group.capacity(shape)))
            if most:
                open_nodes.append((score[0], node_id, 0, most))
                by_node[node_id] = group
        counts: dict[NodeId, tuple[Group, int]] = {}
        heapify(open_nodes)
        while left and open_nodes:
            less_room, node_id, has, most = open_nodes[0]
            left -= 1
            counts[node_id] = (by_node[node_id], has + 1)
            if has + 1 == most:
                heappop(open_nodes)
            else:
                heapreplace(open_nodes, (less_room + shape.millis, node_id, has + 1, most))
        return None if left else counts

    def _gang(self, gpu_type: str, counts: dict[NodeId, tuple[Group, int]]) -> _Found:
        parts: list[Part] = []
        scores: list[Score] = []
        for node_id in sorted(counts):
            group, workers = counts[node_id]
            rated, shares = group.fit(self._shape, workers), self._fitted(node_id, group, workers)
            assert rated is not None  # it was counted that they fit
            assert shares is not None
            scores.append(rated.score)
            parts += [Part(node_id, one) for one in sorted(shares, key=_first_gpu)]
        total = tuple(sum(values) for values in zip(*scores, strict=True))
        return _Found((len(counts), total, tuple(sorted(counts)), gpu_type), tuple(parts))


def _first_gpu(shares: tuple[Share, ...]) -> list[tuple[int, int]]:
    return [(share.gpu_index, share.millis) for share in shares]


def _ranked(
    groups: Collection[Group], shape: GpuShape, workers: int
) -> Iterator[tuple[Score, NodeId, Group]]:
    """The nodes of groups by how good they are for so many workers, then by id."""
    by_score: dict[Score, list[Group]] = {}
    for group in groups:
        found = group.fit(shape, workers)
        if found is not None:
            by_score.setdefault(found.score, []).append(group)
    for score in sorted(by_score):
        yield from in_order(score, by_score[score])
