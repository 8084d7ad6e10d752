"""The request profile: typical requests, learnt from past jobs; see docs/adr/0017.

A profile tells how much of a node's free GPUs is worth nothing to the usual requests: of which GPU
what is left is too little, and for how many of them the cores are too few.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from tgpu.core.model.fragmentation import MOST_GPUS, Worth
from tgpu.core.model.job import Request
from tgpu.core.model.units import GPU

CPU_STEP: Final = 4_000  # nodes whose free cores differ by less are the same to a profile
# Differences in what is lost below this much of a GPU do not decide: they are chance.
LOSS_STEP_MILLIS: Final = 20
FEWEST: Final = 1_000  # requests from which a profile is learnt at least
_ALL: Final = 10_000  # the weights of all requests together, also of those too rare to be told
_TYPICAL: Final = 9_500  # of them: what the most usual requests make up
# How much a GPU counts that cores are too few for, against one that nobody can use: 3 to 20.
_LOST: Final = 20
_STARVED: Final = 3


class RequestShape(NamedTuple):
    """What one worker of a job asks for, as far as a profile goes."""

    gpu_millis: int
    cpu_millis: int = 0
    gpu_types: tuple[str, ...] = ()  # in order; empty: any


def shape_of(request: Request) -> RequestShape:
    gpu_millis, cpu_millis, _ = request.of_a_worker()
    only, listed = request.gpu_type, request.where.gpu_types
    return RequestShape(gpu_millis, cpu_millis, tuple(sorted(listed)) if only is None else (only,))


@dataclass(frozen=True, slots=True)
class RequestProfile:
    """The most usual shapes and how often of 10,000 times each is asked for."""

    wishes: tuple[tuple[RequestShape, int], ...]  # by the name they are stored under


def learn(counts: Mapping[RequestShape, int], fewest: int = FEWEST) -> RequestProfile | None:
    """The shapes that make up 95 % of those counted; None where they are too few to tell."""
    total = sum(counts.values())
    if total < fewest:
        return None
    found: list[tuple[RequestShape, int]] = []
    seen = 0
    for shape, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        if seen * _ALL >= total * _TYPICAL:
            break
        seen += count
        found.append((shape, count))
    weighed = [(shape, max(1, count * _ALL // seen)) for shape, count in found]
    return RequestProfile(tuple(weighed))


def differs(one: RequestProfile, other: RequestProfile) -> bool:
    """Whether more than one request in ten is another."""
    before, after = dict(one.wishes), dict(other.wishes)
    moved = sum(abs(after.get(shape, 0) - before.get(shape, 0)) for shape in {**before, **after})
    return moved * 10 > 2 * _ALL


class TypeProfile:
    """A profile as the GPUs of one type see it."""

    def __init__(self, profile: RequestProfile, gpu_type: str) -> None:
        self._shapes = [
            (shape.gpu_millis, shape.cpu_millis, weight)
            for shape, weight in profile.wishes
            if shape.gpu_millis and (not shape.gpu_types or gpu_type in shape.gpu_types)
        ]
        # Who may not have these GPUs, or wants none, can use nothing of them.
        self._others = sum(weight for _, weight in profile.wishes) - sum(
            w for _, _, w in self._shapes
        )
        self._limits = sorted({cpu for _, cpu, _ in self._shapes})
        self._worths: dict[int, Worth] = {}
        self._starved: dict[int, _Starved] = {}

    def worth(self, level: int) -> Worth:
        """What is lost of GPUs on a node with so many steps of cores free."""
        known = bisect_right(self._limits, level * CPU_STEP)  # the same for all up to the next
        found = self._worths.get(known)
        if found is None:
            able = self._limits[:known]
            most = able[-1] if able else -1
            fits = [(millis, w) for millis, cpu, w in self._shapes if cpu <= most]
            lost = self._others + sum(w for _, cpu, w in self._shapes if cpu > most)
            found = self._worths[known] = _worth(fits, lost)
        return found

    def usable(self, free: int, level: int) -> int:
        """What of so many thousandths the cores suffice for, by weight."""
        found = self._starved.get(level)
        if found is None:
            found = self._starved[level] = _Starved(self._shapes, level * CPU_STEP)
        at = bisect_left(found.caps, free)
        return found.below[at] + free * found.above[at]

    def lost(self, partly: Iterable[int], empty: int, level: int) -> int:
        """What counts against a node of which this much is free, times 10,000 and 20."""
        worth, partly = self.worth(level), list(partly)
        lost = worth.of_empty(empty) + sum(worth.partly[millis] for millis in partly)
        return total_loss(lost, self.usable(sum(partly) + empty * GPU, level))


def total_loss(lost: int, usable: int) -> int:
    return _LOST * lost - _STARVED * usable


LOSS_STEP: Final = LOSS_STEP_MILLIS * _ALL * _LOST


class _Starved:
    """For so many cores: up to how many thousandths of GPUs each shape can go with them."""

    __slots__ = ("above", "below", "caps")

    def __init__(self, shapes: list[tuple[int, int, int]], cpu_millis: int) -> None:
        ends = sorted((cpu_millis * gpus // cpu, w) for gpus, cpu, w in shapes if cpu)
        unbound = sum(w for _, cpu, w in shapes if not cpu)
        self.caps = [cap for cap, _ in ends]
        self.below = [0, *accumulate(cap * w for cap, w in ends)]
        weights = [w for _, w in ends]
        self.above = [unbound + left for left in _sums_behind(weights)]


def _sums_behind(values: list[int]) -> list[int]:
    """For each place before, between and after them: the sum of those behind it."""
    return list(accumulate([0, *reversed(values)]))[::-1]


def _worth(fits: list[tuple[int, int]], lost: int) -> Worth:
    """Of shapes with enough cores; who wants more than a GPU wants that many empty ones."""
    shares = [0] * (GPU + 1)
    whole = [0] * (MOST_GPUS + 1)
    for millis, weight in fits:
        if millis < GPU:
            shares[millis] += weight
        else:
            whole[min(-(-millis // GPU), MOST_GPUS)] += weight
    too_large = _sums_behind(shares)  # at n + 1: who wants more than n
    all_whole = sum(whole)
    partly = [free * (lost + all_whole + too_large[free + 1]) for free in range(GPU + 1)]
    larger = _sums_behind(whole)
    empty = [count * GPU * (lost + larger[count + 1]) for count in range(MOST_GPUS + 1)]
    return Worth(tuple(partly), tuple(empty))
