"""Packing on one node: which of its free GPUs workers get, and how good that is.

It knows a node as its *cells*, the GPUs of one type with what is free of each, in an order that
depends on nothing else. Nodes with the same cells are the same here, so what was found for one
holds for all of them.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tgpu.core.model.fragmentation import USUAL, Worth
from tgpu.core.model.units import GPU


class GpuKind(NamedTuple):
    """What makes two GPUs of one type differ."""

    island: int  # of NVLink; -1: linked to none
    numa: int  # -1: unknown
    heat: int
    mem_mib: int
    is_slice: bool  # of a GPU cut by MIG


Cell = tuple[int, GpuKind]  # free thousandths, more than none
Cells = tuple[Cell, ...]  # in order; equal ones stand for GPUs in the order of their index
Score = tuple[int, ...]  # less is better
Picks = tuple[tuple[int, int], ...]  # position among the cells, thousandths


class GpuShape(NamedTuple):
    """What one worker wants of the GPUs."""

    millis: int
    mem_each_mib: int = 0
    same_island: bool = False
    spread: bool = False
    tight: bool = False  # what is free of a node counts before anything else

    def allows(self, kind: GpuKind) -> bool:
        # A program sees one MIG slice at most.
        return kind.mem_mib >= self.mem_each_mib and not (kind.is_slice and self.millis > GPU)


class Fit(NamedTuple):
    """The best place of some workers on one node."""

    score: Score
    workers: tuple[Picks, ...]


class _Free(NamedTuple):
    """A cell that a worker may have."""

    free: int
    island: int
    numa: int
    heat: int
    position: int


def capacity(cells: Cells, shape: GpuShape) -> int:
    """How many workers fit, one beside the other."""
    return _capacity(_allowed(cells, shape), shape)


def fit(cells: Cells, shape: GpuShape, workers: int = 1, worth: Worth = USUAL) -> Fit | None:
    """Worker by worker the best place that leaves room for those to come; None: too many."""
    left = _allowed(cells, shape)
    if not left or (workers > 1 and _capacity(left, shape) < workers):
        return None
    room = sum(cell.free for cell in left)
    total: Score | None = None
    picked: list[Picks] = []
    for to_come in range(workers - 1, -1, -1):
        best = _best(left, shape, to_come, worth)
        if best is None:
            return None
        total = best.score if total is None else _sum(total, best.score)
        picked.append(tuple((cell.position, millis) for cell, millis in best.picks))
        if to_come:
            left = _without(left, best.picks)
    assert total is not None
    if shape.spread:
        score = (-room, *total)
    else:
        score = (room, *total) if shape.tight else (*total[:3], room, *total[3:])
    return Fit(score, tuple(picked))


def _allowed(cells: Cells, shape: GpuShape) -> list[_Free]:
    return [
        _Free(free, kind.island, kind.numa, kind.heat, position)
        for position, (free, kind) in enumerate(cells)
        if shape.allows(kind)
    ]


def _sum(one: Score, other: Score) -> Score:
    return tuple(a + b for a, b in zip(one, other, strict=True))


# -- how many ------------------------------------------------------------------------------------


def _capacity(cells: list[_Free], shape: GpuShape) -> int:
    if not shape.same_island or shape.millis <= GPU:
        return count_workers([cell.free for cell in cells], shape.millis)
    islands: dict[int, list[int]] = {}
    for cell in cells:
        if cell.island >= 0:  # alone it is one GPU at most
            islands.setdefault(cell.island, []).append(cell.free)
    return sum(count_workers(free, shape.millis) for free in islands.values())


def count_workers(free: list[int], millis: int) -> int:
    """How many workers fit onto GPUs of which this much is free, wherever they are."""
    whole, rest = divmod(millis, GPU)
    if not whole:
        return sum(amount // rest for amount in free)
    empty = sum(amount == GPU for amount in free)
    if not rest:
        return empty // whole
    # Rests go onto what is partly free first, then onto GPUs that are opened for them.
    partly, per_gpu = sum(amount // rest for amount in free if amount < GPU), GPU // rest
    for count in range(empty // whole, 0, -1):
        opened = -(-max(0, count - partly) // per_gpu)
        if count * whole + opened <= empty:
            return count
    return 0


# -- which ---------------------------------------------------------------------------------------


class _Choice(NamedTuple):
    score: Score
    picks: list[tuple[_Free, int]]


_Group = tuple[int, int]  # island and NUMA node of empty GPUs


def _best(cells: list[_Free], shape: GpuShape, to_come: int, worth: Worth) -> _Choice | None:
    """The least of all choices that differ in more than the index; see docs/adr/0012."""
    whole, rest = divmod(shape.millis, GPU)
    groups = _empty_groups(cells)
    if sum(map(len, groups.values())) < whole:
        return None
    best: tuple[Score, tuple[int, ...]] | None = None
    chosen: list[tuple[_Free, int]] = []
    for wholes in _selections(groups, whole):
        for partial in _rests(cells, wholes, rest):
            gpus = wholes if partial is None else [*wholes, partial]
            if shape.same_island and not _linked(gpus):
                continue
            score = _score(groups, wholes, partial, shape, worth)
            rank = (score, tuple(cell.position for cell in gpus))
            if best is not None and rank >= best:
                continue
            picks = [(cell, GPU) for cell in wholes]
            if partial is not None:
                picks.append((partial, rest))
            if to_come and _capacity(_without(cells, picks), shape) < to_come:
                continue
            best, chosen = rank, picks
    return None if best is None else _Choice(best[0], chosen)


def _empty_groups(cells: list[_Free]) -> dict[_Group, list[_Free]]:
    groups: dict[_Group, list[_Free]] = {}
    for cell in cells:
        if cell.free == GPU:
            groups.setdefault((cell.island, cell.numa), []).append(cell)
    for members in groups.values():
        members.sort(key=lambda cell: (cell.heat, cell.position))
    return groups


def _selections(groups: dict[_Group, list[_Free]], count: int) -> Iterator[list[_Free]]:
    """Every way to take so many from the groups, the first of each group first."""
    if not count:
        yield []
        return
    members = list(groups.values())
    behind = [sum(map(len, members[at + 1 :])) for at in range(len(members))]

    def from_group(at: int, left: int) -> Iterator[list[_Free]]:
        if not left:
            yield []
            return
        for taken in range(max(0, left - behind[at]), min(left, len(members[at])) + 1):
            if at + 1 == len(members):
                yield members[at][:taken]
                return
            for others in from_group(at + 1, left - taken):
                yield members[at][:taken] + others

    yield from from_group(0, count)


def _rests(cells: list[_Free], wholes: list[_Free], rest: int) -> list[_Free | None]:
    """One of each sort of GPU that holds the rest: the coolest, then the first."""
    if not rest:
        return [None]
    taken = {cell.position for cell in wholes}
    found: dict[tuple[int, int, int], _Free] = {}
    for cell in cells:
        if cell.free < rest or cell.position in taken:
            continue
        sort = (cell.free, cell.island, cell.numa)
        other = found.get(sort)
        if other is None or (cell.heat, cell.position) < (other.heat, other.position):
            found[sort] = cell
    return list(found.values())


def _linked(gpus: list[_Free]) -> bool:
    first = gpus[0].island
    return len(gpus) == 1 or (first >= 0 and all(cell.island == first for cell in gpus))


def _score(
    groups: dict[_Group, list[_Free]],
    wholes: list[_Free],
    partial: _Free | None,
    shape: GpuShape,
    worth: Worth,
) -> Score:
    gpus = wholes if partial is None else [*wholes, partial]
    alone = sum(cell.island < 0 for cell in gpus)
    islands = alone + len({cell.island for cell in gpus if cell.island >= 0})
    numas = len({cell.numa for cell in gpus})
    opened = [cell for cell in gpus if cell.free == GPU]
    before = sum(map(len, groups.values()))
    growth = worth.of_empty(before - len(opened)) - worth.of_empty(before)
    if partial is not None:
        growth += worth.partly[partial.free - shape.millis % GPU]
        if partial.free < GPU:
            growth -= worth.partly[partial.free]
    fullness = 0 if partial is None else partial.free
    # Empty GPUs that stay behind in the islands and NUMA nodes that lose one: few means that the
    # smallest were broken.
    in_islands, in_numas = {c.island for c in opened}, {c.numa for c in opened}
    beside, near = -sum(cell.island >= 0 for cell in opened), -len(opened)
    for (island, numa), members in groups.items():
        if island >= 0 and island in in_islands:
            beside += len(members)
        if numa in in_numas:
            near += len(members)
    heat = sum(cell.heat for cell in gpus)
    if shape.spread:
        return (islands, numas, -fullness, beside, near, heat)
    return (islands, numas, growth, fullness, beside, near, heat)


def _without(cells: list[_Free], picks: list[tuple[_Free, int]]) -> list[_Free]:
    taken = {cell.position: millis for cell, millis in picks}
    left = []
    for cell in cells:
        free = cell.free - taken.get(cell.position, 0)
        if free:
            left.append(cell._replace(free=free))
    return left
