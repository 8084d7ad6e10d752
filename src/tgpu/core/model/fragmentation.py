"""Fragmentation: free GPU capacity of a node that typical requests cannot use.

A free half GPU is worth nothing to who wants a whole one. Over a fixed mix of requests this gives
each node a number, and a placement is good where that number grows least. See docs/adr/0012.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tgpu.core.model.units import GPU

# Thousandths of GPUs, and how often they are asked for. Written down rather than measured: the
# same facts must give the same plan on every machine and after every restart. The proportions are
# those that published traces of shared clusters have in common: most jobs want one GPU or a part
# of one, and those that want a whole machine are few.
MIX: Final = ((250, 2), (500, 3), (1000, 8), (2000, 3), (4000, 2), (8000, 2))

MOST_GPUS: Final = 64  # on one node; beyond this the table's last row serves


def _of_a_gpu(free: int) -> int:
    """Of a GPU that is in part free: what the mix cannot use of it, by weight."""
    return sum(weight * free for millis, weight in MIX if millis > free)


def _of_empty_gpus(count: int) -> int:
    return sum(weight * count * GPU for millis, weight in MIX if millis > count * GPU)


PARTLY_FREE: Final = tuple(_of_a_gpu(free) for free in range(GPU + 1))
EMPTY: Final = tuple(_of_empty_gpus(count) for count in range(MOST_GPUS + 1))


def of_empty(count: int) -> int:
    return EMPTY[min(count, MOST_GPUS)]


class Worth(NamedTuple):
    """What some requests cannot use: of a GPU by what is free of it, and of empty ones by how
    many there are."""

    partly: Sequence[int]
    empty: Sequence[int]

    def of_empty(self, count: int) -> int:
        return self.empty[min(count, MOST_GPUS)]


USUAL: Final = Worth(PARTLY_FREE, EMPTY)


def unusable(free: list[int]) -> int:
    """For GPUs of one type on one node, with what is free of each: F in docs/adr/0012."""
    partly = sum(PARTLY_FREE[millis] for millis in free if millis < GPU)
    return partly + of_empty(sum(millis == GPU for millis in free))
