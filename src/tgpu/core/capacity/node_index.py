"""Nodes grouped by their free capacity, so that a search looks at groups instead of nodes.

Brought up to date before a search, for the nodes that changed since the last one. It decides
nothing by itself: what it answers is what a look at every node would.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from tgpu.core.capacity.packing import Cells, Fit, GpuKind, GpuShape, Score, capacity, fit
from tgpu.core.model.ids import NodeId
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.units import GPU

if TYPE_CHECKING:
    from tgpu.core.capacity.ledger import NodeUse

# Groups that no node is in any more are kept, with what was found for them, until there are this
# many: a busy cluster comes back to the same few. A few kB each.
_MOST_GROUPS: Final = 50_000
_MOST_FINDERS: Final = 2_000
_MOST_NEWS: Final = 100_000
_MOST_SEEN: Final = 4_096
_FEW: Final = 64  # nodes that are looked at one by one rather than by group

Indexes = tuple[int, ...]  # of GPUs, in the order of the cells
Needs = tuple[int, int]  # cores in thousandths, MiB of memory


def kind_of(gpu: Gpu) -> GpuKind:
    return GpuKind(
        -1 if gpu.nvlink_group is None else gpu.nvlink_group,
        -1 if gpu.numa_node is None else gpu.numa_node,
        int(gpu.heat),
        gpu.mem_mib,
        gpu.slice_of is not None,
    )


def kinds_of(gpus: Iterable[Gpu]) -> list[tuple[GpuKind, int]]:
    """The kinds and indexes of GPUs, in the order that `cells_of` wants."""
    return sorted((kind_of(gpu), gpu.index) for gpu in gpus)


def cells_of(gpus: list[tuple[GpuKind, int]], taken: dict[int, int]) -> tuple[Cells, Indexes]:
    """The cells of these usable GPUs, and which GPU each of them is."""
    found = []
    for kind, index in gpus:
        free = GPU - taken.get(index, 0)
        if free > 0:
            found.append((free, kind, index))
    # By what is free, then kind, then index: those two are in order, and stay so among equals.
    found.sort(key=_free)
    return tuple([cell[:2] for cell in found]), tuple([cell[2] for cell in found])


_free: Final = itemgetter(0)


class Group:
    """Nodes that are alike for every search: with the same cells of one type."""

    __slots__ = (
        "_capacities",
        "_fits",
        "cells",
        "gpu_type",
        "is_idle",
        "nodes",
        "serial",
        "spare_cpu_millis",
        "spare_mem_mib",
    )

    def __init__(self, gpu_type: str, cells: Cells, is_idle: bool, serial: int = 0) -> None:
        self.gpu_type = gpu_type
        self.cells = cells
        self.is_idle = is_idle  # nobody is on these nodes
        self.serial = serial
        self.nodes: list[NodeId] = []  # in order
        # No node of it has more than this to spare; it may well be that none has as much.
        self.spare_cpu_millis = 0
        self.spare_mem_mib = 0
        self._fits: dict[tuple[GpuShape, int], Fit | None] = {}
        self._capacities: dict[GpuShape, int] = {}

    def fit(self, shape: GpuShape, workers: int = 1) -> Fit | None:
        key = (shape, workers)
        try:
            return self._fits[key]
        except KeyError:
            found = self._fits[key] = fit(self.cells, shape, workers)
            return found

    def may_spare(self, needs: Needs) -> bool:
        return needs[0] <= self.spare_cpu_millis and needs[1] <= self.spare_mem_mib

    def capacity(self, shape: GpuShape) -> int:
        known = self._capacities.get(shape)
        if known is None:
            known = self._capacities[shape] = capacity(self.cells, shape)
        return known


class Ranked(NamedTuple):
    score: Score
    serial: int  # tells groups of one score apart; decides nothing
    group: Group
    fit: Fit


class Finder:
    """The groups that hold a worker of one shape, the best first."""

    def __init__(self, shape: GpuShape, idle_only: bool) -> None:
        self._shape = shape
        self._idle_only = idle_only
        self._ranked: list[Ranked] = []
        self._known: set[int] = set()
        self.seen = 0  # of the news of its type

    def add(self, group: Group) -> None:
        if not group.nodes or group.serial in self._known or self._idle_only > group.is_idle:
            return
        found = group.fit(self._shape)
        if found is not None:
            self._known.add(group.serial)
            insort(self._ranked, Ranked(found.score, group.serial, group, found))

    def first(self) -> Ranked | None:
        """The group in which the first of `nodes` is the first, for who needs GPUs alone."""
        ranked = self._ranked
        while ranked and not ranked[0][2].nodes:
            self._drop(0)
        if not ranked:
            return None
        best = ranked[0]
        score, at = best[0], 1
        while at < len(ranked) and ranked[at][0] == score:
            group = ranked[at][2]
            if not group.nodes:
                self._drop(at)
                continue
            if group.nodes[0] < best[2].nodes[0]:
                best = ranked[at]
            at += 1
        return best

    def nodes(self, needs: Needs) -> Iterator[tuple[Score, NodeId, Group]]:
        """The best first, of equals the first by id. Nothing may change meanwhile.

        Groups of which it is known that no node can spare the `needs` are left out.
        """
        ranked, at = self._ranked, 0
        while at < len(ranked):
            first = ranked[at]
            if not first.group.nodes:
                self._drop(at)
                continue
            at += 1
            same = [first.group]
            while at < len(ranked) and ranked[at].score == first.score:
                if ranked[at].group.nodes:
                    same.append(ranked[at].group)
                    at += 1
                else:
                    self._drop(at)
            if needs[0] or needs[1]:
                same = [group for group in same if group.may_spare(needs)]
            if len(same) == 1:
                for node_id in same[0].nodes:
                    yield first.score, node_id, same[0]
            else:
                yield from in_order(first.score, same)

    def _drop(self, at: int) -> None:
        self._known.discard(self._ranked.pop(at).serial)


def in_order(score: Score, groups: list[Group]) -> Iterator[tuple[Score, NodeId, Group]]:
    for node_id, group in merge(*map(_with_group, groups), key=_node_id):
        yield score, node_id, group


def _with_group(group: Group) -> Iterator[tuple[NodeId, Group]]:
    return ((node_id, group) for node_id in group.nodes)


def _node_id(pair: tuple[NodeId, Group]) -> NodeId:
    return pair[0]


def fewest(rooms: Iterable[tuple[int, int]], workers: int) -> int:
    """How many nodes so many workers need; `rooms` are workers a node can have, and how many such
    nodes there are."""
    nodes = 0
    for room, count in sorted(rooms, reverse=True):
        if not room or room * count >= workers:
            return nodes + (-(-workers // room) if room else workers)
        workers -= room * count
        nodes += count
    return nodes + workers


class _Look(NamedTuple):
    """Where a node belongs: its group for each type that has something free, and which GPU each
    cell of it is."""

    groups: tuple[Group, ...]
    indexes: dict[str, Indexes]  # by type


_CLOSED: Final = _Look((), {})
# What was found for nodes of which this is taken, by whether nobody is there.
_Seen = dict[tuple[bool, frozenset[tuple[int, int]]], _Look]


class _Record:
    """A node as the index knows it."""

    __slots__ = ("groups", "indexes", "node", "seen", "usable")

    def __init__(self) -> None:
        self.node: Node | None = None
        self.usable: dict[str, list[tuple[GpuKind, int]]] = {}  # by type
        self.seen: _Seen = {}  # shared by nodes with the same usable GPUs
        self.groups: tuple[Group, ...] = ()
        self.indexes: dict[str, Indexes] = {}


class NodeIndex:
    def __init__(self, nodes: "dict[NodeId, NodeUse]") -> None:
        self._nodes = nodes
        self.records: dict[NodeId, _Record] = {}
        self._groups: dict[tuple[str, bool, Cells], Group] = {}
        self._populated: dict[str, dict[int, Group]] = {}
        self._types: list[str] | None = None  # those of them
        self._news: dict[str, list[Group]] = {}  # groups that got their first node, by type
        self._finders: dict[tuple[str, GpuShape, bool], Finder] = {}
        self._sizes: dict[str, list[int]] = {}  # of GPU memory, ever seen
        self._labelled: dict[tuple[str, str], dict[NodeId, None]] = {}
        self._seen: dict[tuple[tuple[str, tuple[tuple[GpuKind, int], ...]], ...], _Seen] = {}
        self._fewest: dict[tuple[str, GpuShape, int], int] = {}
        self._serial = 0
        self.refresh(nodes)

    def is_about(self, nodes: "dict[NodeId, NodeUse]") -> bool:
        """Whether these are its nodes; also no longer once it has grown too large."""
        return nodes is self._nodes and len(self._groups) <= _MOST_GROUPS

    def types(self) -> list[str]:
        """In order. Not to be changed by the caller."""
        if self._types is None:
            self._types = sorted(self._populated)
        return self._types

    def groups(self, gpu_type: str) -> Collection[Group]:
        """Those with a node in them, in no order."""
        return self._populated.get(gpu_type, {}).values()

    def usable(self, node_id: NodeId, gpu_type: str) -> list[tuple[GpuKind, int]]:
        return self.records[node_id].usable.get(gpu_type, [])

    def with_label(self, labels: Iterable[tuple[str, str]]) -> Collection[NodeId] | None:
        """Nodes that have one of the labels, if that leaves few of them; None: look at all."""
        fewest = min((self._labelled.get(label, {}) for label in labels), key=len)
        return fewest.keys() if len(fewest) <= _FEW else None

    def indexes(self, node_id: NodeId, gpu_type: str) -> Indexes:
        return self.records[node_id].indexes[gpu_type]

    def usual(self, gpu_type: str, shape: GpuShape) -> GpuShape | None:
        """The shape by which others ask for the same GPUs; None where none has the memory."""
        if not shape.mem_each_mib:
            return shape
        sizes = self._sizes.get(gpu_type, [])
        at = bisect_left(sizes, shape.mem_each_mib)
        if at == len(sizes):
            return None
        return shape._replace(mem_each_mib=sizes[at] if at else 0)

    def finder(self, gpu_type: str, shape: GpuShape, idle_only: bool) -> Finder:
        key = (gpu_type, shape, idle_only)
        found = self._finders.get(key)
        news = self._news.get(gpu_type, ())
        if found is None:
            found = self._new_finder(key)
            found.seen = len(news)
        elif found.seen < len(news):
            for group in news[found.seen :]:
                found.add(group)
            found.seen = len(news)
        return found

    def fewest_nodes(self, gpu_type: str, shape: GpuShape, workers: int) -> int:
        """On how many nodes so many workers are if nobody else is there; more where they are
        never."""
        key = (gpu_type, shape, workers)
        known = self._fewest.get(key)
        if known is None:
            sorts: Counter[tuple[GpuKind, ...]] = Counter()
            for record in self.records.values():
                sorts[tuple([kind for kind, _ in record.usable.get(gpu_type, ())])] += 1
            rooms = [(capacity(tuple((GPU, k) for k in ks), shape), n) for ks, n in sorts.items()]
            known = self._fewest[key] = fewest(rooms, workers)
        return known

    def note_spare(self, gpu_type: str) -> None:
        """Count what groups can really spare: somebody looked everywhere in vain."""
        for group in self.groups(gpu_type):
            uses = [self._nodes[node_id] for node_id in group.nodes]
            group.spare_cpu_millis = max(use.node.cpu_millis - use.cpu_millis for use in uses)
            group.spare_mem_mib = max(use.node.mem_mib - use.mem_mib for use in uses)

    def _new_finder(self, key: tuple[str, GpuShape, bool]) -> Finder:
        gpu_type, shape, idle_only = key
        if len(self._finders) >= _MOST_FINDERS:
            self._finders.clear()
        finder = self._finders[key] = Finder(shape, idle_only)
        for group in self.groups(gpu_type):
            finder.add(group)
        return finder

    def refresh(self, changed: Collection[NodeId]) -> None:
        records, nodes = self.records, self._nodes
        for node_id in changed:
            record = records.get(node_id)
            if record is None:
                record = records[node_id] = _Record()
            use = nodes[node_id]
            if record.node is not use.node:
                self._read(record, use.node)
            self._regroup(record, use)

    def _read(self, record: _Record, node: Node) -> None:
        self._fewest.clear()
        for label in dict.fromkeys(record.node.labels if record.node is not None else ()):
            del self._labelled[label][node.node_id]
        for label in dict.fromkeys(node.labels):
            self._labelled.setdefault(label, {})[node.node_id] = None
        record.node = node
        by_type: dict[str, list[Gpu]] = {}
        for gpu in node.gpus:
            if gpu.is_usable:
                by_type.setdefault(gpu.gpu_type, []).append(gpu)
                sizes = self._sizes.setdefault(gpu.gpu_type, [])
                if gpu.mem_mib not in sizes:
                    insort(sizes, gpu.mem_mib)
        record.usable = {gpu_type: kinds_of(gpus) for gpu_type, gpus in by_type.items()}
        alike = tuple([(gpu_type, tuple(gpus)) for gpu_type, gpus in record.usable.items()])
        record.seen = self._seen.setdefault(alike, {})

    def _regroup(self, record: _Record, use: "NodeUse") -> None:
        if use.closed_by:
            look = _CLOSED
        else:
            key = (not use.holdings, frozenset(use.gpu_millis.items()))
            found = record.seen.get(key)
            look = self._look(record, use) if found is None else found
            if found is None:
                if len(record.seen) >= _MOST_SEEN:
                    record.seen.clear()
                record.seen[key] = look
        groups, record.indexes = look
        node = use.node
        spare_cpu, spare_mem = node.cpu_millis - use.cpu_millis, node.mem_mib - use.mem_mib
        for group in groups:
            if group.spare_cpu_millis < spare_cpu or group.spare_mem_mib < spare_mem:
                group.spare_cpu_millis = max(group.spare_cpu_millis, spare_cpu)
                group.spare_mem_mib = max(group.spare_mem_mib, spare_mem)
        if groups == record.groups:
            return
        for group in record.groups:
            self._leave(group, node.node_id)
        for group in groups:
            self._join(group, node.node_id)
        record.groups = groups

    def _look(self, record: _Record, use: "NodeUse") -> _Look:
        groups: list[Group] = []
        indexes: dict[str, Indexes] = {}
        for gpu_type, usable in record.usable.items():
            cells, which = cells_of(usable, use.gpu_millis)
            if cells:
                groups.append(self._group(gpu_type, not use.holdings, cells))
                indexes[gpu_type] = which
        return _Look(tuple(groups), indexes)

    def _group(self, gpu_type: str, is_idle: bool, cells: Cells) -> Group:
        key = (gpu_type, is_idle, cells)
        group = self._groups.get(key)
        if group is None:
            self._serial += 1
            group = self._groups[key] = Group(gpu_type, cells, is_idle, self._serial)
        return group

    def _join(self, group: Group, node_id: NodeId) -> None:
        if not group.nodes:
            populated = self._populated.get(group.gpu_type)
            if populated is None:
                populated = self._populated[group.gpu_type] = {}
                self._types = None
            populated[group.serial] = group
            news = self._news.setdefault(group.gpu_type, [])
            if len(news) >= _MOST_NEWS:
                news.clear()
                self._finders.clear()
            news.append(group)
        insort(group.nodes, node_id)

    def _leave(self, group: Group, node_id: NodeId) -> None:
        del group.nodes[bisect_left(group.nodes, node_id)]
        if not group.nodes:
            populated = self._populated[group.gpu_type]
            del populated[group.serial]
            if not populated:
                del self._populated[group.gpu_type]
                self._types = None
