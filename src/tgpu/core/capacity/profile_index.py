"""Nodes grouped by their free capacity, cores included, and ranked by the fragmentation for a
request profile.

As `node_index`, for jobs that are placed by a learnt profile. It decides nothing by itself: what it
answers is what a look at every node would.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from typing import TYPE_CHECKING, Final, NamedTuple

from tgpu.core.capacity.node_index import Indexes, cells_of, kinds_of
from tgpu.core.capacity.packing import Cells, GpuKind, GpuShape, Picks, Score, fit
from tgpu.core.model.ids import NodeId
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.request_profile import (
    CPU_STEP,
    LOSS_STEP,
    RequestProfile,
    TypeProfile,
    total_loss,
)
from tgpu.core.model.units import GPU

if TYPE_CHECKING:
    from tgpu.core.capacity.ledger import NodeUse

_MOST_GROUPS: Final = 100_000
_MOST_FINDERS: Final = 2_000
_MOST_NEWS: Final = 100_000  # beyond the groups there are
_NOW: Final = -1  # among the levels: all that is lost of it now, for want of cores too


class Need(NamedTuple):
    """What a worker wants of a node, as far as groups go."""

    gpu_millis: int
    cpu_steps: int  # begun ones


class Fitted(NamedTuple):
    score: Score
    picks: Picks


class ProfileGroup:
    """Nodes that are alike to a profile: the same cells of one type, and cores to the same step."""

    __slots__ = ("cells", "empty", "gpu_type", "kind", "level", "lost", "nodes", "partly", "room")

    def __init__(self, gpu_type: str, cells: Cells, level: int) -> None:
        self.gpu_type = gpu_type
        self.cells = cells
        self.level = level  # of free cores
        self.nodes: list[NodeId] = []  # in order
        self.partly = [free for free, _ in cells if free < GPU]
        self.empty = len(cells) - len(self.partly)
        self.room = sum(free for free, _ in cells)
        first = cells[0][1] if cells else None
        # Where no GPU differs from the others but by what is free of it, much need not be asked.
        alike = first is not None and all(kind == first for _, kind in cells)
        self.kind: GpuKind | None = first if alike else None
        # By what would be left of the cores: what is lost of the GPUs as they are.
        self.lost: dict[int, int] = {}

    def without_slices(self) -> "ProfileGroup":
        """Without slices by MIG, of which no program can have two."""
        if not any(kind.is_slice for _, kind in self.cells):
            return self
        whole = tuple(cell for cell in self.cells if not cell[1].is_slice)
        return ProfileGroup(self.gpu_type, whole, self.level)


def fitted(profile: TypeProfile, group: ProfileGroup, need: Need) -> Fitted | None:
    """The best place of one worker on a node of the group; None where it has no room."""
    left = max(0, group.level - need.cpu_steps)
    found = _choice(group, need.gpu_millis, profile, left)
    if found is None:
        return None
    (islands, numas, growth, room, *rest), picks = found
    if need.gpu_millis > GPU:
        group = group.without_slices()
    before = group.lost.get(_NOW)
    if before is None:
        before = group.lost[_NOW] = profile.lost(group.partly, group.empty, group.level)
    as_it_is = group.lost.get(left)
    if as_it_is is None:
        worth = profile.worth(left)
        lost = worth.of_empty(group.empty) + sum([worth.partly[free] for free in group.partly])
        as_it_is = group.lost[left] = lost
    after = total_loss(as_it_is + growth, profile.usable(room - need.gpu_millis, left))
    return Fitted((islands, numas, (after - before) // LOSS_STEP, room, left, *rest), picks)


def _choice(
    group: ProfileGroup, millis: int, profile: TypeProfile, left: int
) -> tuple[Score, Picks] | None:
    """Which GPUs, scored as by `packing.fit`."""
    if not millis:
        return (0, 0, 0, group.room, 0, 0, 0, 0), ()
    worth = profile.worth(left)
    if group.kind is None or (millis % GPU and millis > GPU):
        shape = GpuShape(millis)
        found = fit(group.cells, shape, 1, worth)
        return None if found is None else (found.score, found.workers[0])
    kind, empty, partly = group.kind, group.empty, group.partly
    alone = kind.island < 0
    if millis >= GPU:
        count = millis // GPU
        if count > empty or (kind.is_slice and count > 1):
            return None
        growth = worth.of_empty(empty - count) - worth.of_empty(empty)
        at, still = len(partly), empty - count
        score = (count if alone else 1, 1, growth, group.room, 0)
        picks = tuple([(at + more, GPU) for more in range(count)])
        return (*score, 0 if alone else still, still, kind.heat * count), picks
    lost = worth.partly
    best: tuple[int, int, int] | None = None  # growth, what is free of it, position
    if empty:
        opened = worth.of_empty(empty - 1) - worth.of_empty(empty) + lost[GPU - millis]
        best = (opened, GPU, len(partly))
    seen = 0
    for position, free in enumerate(partly):  # the fullest first
        if free >= millis and free != seen:
            seen = free
            one = (lost[free - millis] - lost[free], free, position)
            if best is None or one < best:
                best = one
    if best is None:
        return None
    growth, free, position = best
    still = empty - 1 if free == GPU else 0
    beside = 0 if alone else still
    return (1, 1, growth, group.room, free, beside, still, kind.heat), ((position, millis),)


class _Ranked(NamedTuple):
    score: Score
    serial: int  # tells groups of one score apart; decides nothing
    group: ProfileGroup
    picks: Picks


class _Finder:
    """The groups of a type that hold a worker, the best first."""

    __slots__ = ("_known", "_mix", "_need", "ranked", "seen")

    def __init__(self, profile: TypeProfile, need: Need) -> None:
        self._mix = profile
        self._need = need
        self.ranked: list[_Ranked] = []
        self._known: set[int] = set()
        self.seen = 0  # of the news of its type

    def add(self, serial: int, group: ProfileGroup) -> None:
        # Of a group whose step is the last one needed, some nodes have the cores.
        if not group.nodes or serial in self._known or group.level + 1 < self._need.cpu_steps:
            return
        found = fitted(self._mix, group, self._need)
        if found is not None:
            self._known.add(serial)
            insort(self.ranked, _Ranked(found.score, serial, group, found.picks))

    def nodes(self) -> Iterator[tuple[Score, NodeId, Picks]]:
        """The best first, of equals the first by id. Nothing may change meanwhile."""
        ranked, at = self.ranked, 0
        while at < len(ranked):
            first = ranked[at]
            if not first.group.nodes:
                self._drop(at)
                continue
            at += 1
            same = [first]
            while at < len(ranked) and ranked[at].score == first.score:
                if ranked[at].group.nodes:
                    same.append(ranked[at])
                    at += 1
                else:
                    self._drop(at)
            if len(same) == 1:
                for node_id in first.group.nodes:
                    yield first.score, node_id, first.picks
                continue
            for node_id, one in merge(*map(_with_rank, same), key=_node_id):
                yield one.score, node_id, one.picks

    def _drop(self, at: int) -> None:
        self._known.discard(self.ranked.pop(at).serial)


def _with_rank(ranked: _Ranked) -> list[tuple[NodeId, _Ranked]]:
    return [(node_id, ranked) for node_id in ranked.group.nodes]


def _node_id(pair: tuple[NodeId, _Ranked]) -> NodeId:
    return pair[0]


class _Record:
    __slots__ = ("groups", "indexes", "node", "usable")

    def __init__(self, node: Node) -> None:
        self.node = node
        by_type: dict[str, list[Gpu]] = {}
        for gpu in node.gpus:
            if gpu.is_usable:
                by_type.setdefault(gpu.gpu_type, []).append(gpu)
        self.usable = {gpu_type: kinds_of(by_type[gpu_type]) for gpu_type in sorted(by_type)}
        self.groups: list[int] = []  # their serials
        self.indexes: dict[str, Indexes] = {}


class ProfileIndex:
    def __init__(self, profile: RequestProfile, nodes: "dict[NodeId, NodeUse]") -> None:
        self.profile = profile
        self.stale: dict[NodeId, None] = dict.fromkeys(nodes)
        self._nodes = nodes
        self._records: dict[NodeId, _Record] = {}
        self._profiles: dict[str, TypeProfile] = {}
        self._groups: list[ProfileGroup] = []  # by serial
        self._serials: dict[tuple[str, Cells, int], int] = {}
        self._news: dict[str, list[int]] = {}  # groups that got their first node, by type
        self._finders: dict[tuple[str, Need], _Finder] = {}

    def is_about(self, profile: RequestProfile, nodes: "dict[NodeId, NodeUse]") -> bool:
        """Whether it serves this; also no longer once it has grown too large."""
        return (
            profile is self.profile and nodes is self._nodes and len(self._groups) <= _MOST_GROUPS
        )

    def types(self) -> list[str]:
        return sorted(self._news)

    def nodes(self, gpu_type: str, need: Need) -> Iterator[tuple[Score, NodeId, Picks]]:
        """Nodes with the GPUs and about the cores, the best first."""
        key = (gpu_type, need)
        finder = self._finders.get(key)
        if finder is None:
            if len(self._finders) >= _MOST_FINDERS:
                self._finders.clear()
            finder = self._finders[key] = _Finder(self._mix_of(gpu_type), need)
        news = self._news.get(gpu_type, [])
        for serial in news[finder.seen :]:
            finder.add(serial, self._groups[serial])
        finder.seen = len(news)
        return finder.nodes()

    def indexes(self, node_id: NodeId, gpu_type: str) -> Indexes:
        """Which GPU each cell is."""
        return self._records[node_id].indexes[gpu_type]

    def fit_on(self, use: "NodeUse", gpu_type: str, need: Need) -> tuple[Picks, Indexes] | None:
        """Which cells, on a node that is not as the index knows it, and which GPU each of them
        is."""
        usable = self._records[use.node.node_id].usable[gpu_type]
        cells, indexes = cells_of(usable, use.gpu_millis)
        found = fitted(self._mix_of(gpu_type), ProfileGroup(gpu_type, cells, _level(use)), need)
        return None if found is None else (found.picks, indexes)

    def refresh(self) -> None:
        for node_id in self.stale:
            use = self._nodes[node_id]
            record = self._records.get(node_id)
            groups = record.groups if record is not None else []
            if record is None or record.node is not use.node:
                record = self._records[node_id] = _Record(use.node)
            record.groups = self._groups_of(record, use)
            if record.groups != groups:
                self._move(node_id, groups, record.groups)
        self.stale.clear()

    def _mix_of(self, gpu_type: str) -> TypeProfile:
        found = self._profiles.get(gpu_type)
        if found is None:
            found = self._profiles[gpu_type] = TypeProfile(self.profile, gpu_type)
        return found

    def _groups_of(self, record: _Record, use: "NodeUse") -> list[int]:
        if use.closed_by:
            return []
        level = _level(use)
        found = []
        for gpu_type, usable in record.usable.items():
            cells, record.indexes[gpu_type] = cells_of(usable, use.gpu_millis)
            key = (gpu_type, cells, level)
            serial = self._serials.get(key)
            if serial is None:
                serial = self._serials[key] = len(self._groups)
                self._groups.append(ProfileGroup(gpu_type, cells, level))
            found.append(serial)
        return found

    def _move(self, node_id: NodeId, old: list[int], new: list[int]) -> None:
        for serial in old:
            nodes = self._groups[serial].nodes
            del nodes[bisect_left(nodes, node_id)]
        for serial in new:
            group = self._groups[serial]
            if not group.nodes:
                self._announce(group.gpu_type, serial)
            insort(group.nodes, node_id)

    def _announce(self, gpu_type: str, serial: int) -> None:
        news = self._news.setdefault(gpu_type, [])
        if len(news) >= _MOST_NEWS + len(self._groups):
            # A group is news each time it gets a first node: only those that have some matter.
            news[:] = [one for one in dict.fromkeys(news) if self._groups[one].nodes]
            self._finders.clear()
        news.append(serial)


def _level(use: "NodeUse") -> int:
    return max(0, use.node.cpu_millis - use.cpu_millis) // CPU_STEP
