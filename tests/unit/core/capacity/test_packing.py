"""Workers on the GPUs of one node."""

import pytest

from tgpu.core.capacity.packing import Cells, GpuKind, GpuShape, capacity, fit


def cells(*free: int, islands: tuple[int, ...] = ()) -> Cells:
    return tuple(
        sorted(
            (millis, GpuKind(islands[at] if islands else -1, -1, 0, 80_000, False))
            for at, millis in enumerate(free)
        )
    )


@pytest.mark.parametrize(
    ("free", "millis", "count"),
    [
        ((1000, 1000, 500), 1000, 2),
        ((1000, 1000, 500), 500, 5),
        ((1000, 1000, 500), 300, 7),
        ((1000, 1000, 500), 1500, 1),
        ((1000, 1000, 1000), 1500, 2),
        ((1000,) * 6, 1500, 4),
        ((1000,) * 8, 3000, 2),
        ((), 1000, 0),
    ],
)
def test_capacity_counts_workers_beside_each_other(
    free: tuple[int, ...], millis: int, count: int
) -> None:
    assert capacity(cells(*free), GpuShape(millis)) == count
    assert fit(cells(*free), GpuShape(millis), count + 1) is None
    if count:
        found = fit(cells(*free), GpuShape(millis), count)
        assert found is not None
        assert len(found.workers) == count


def test_capacity_of_one_island_does_not_help_another() -> None:
    two = cells(*(1000,) * 6, islands=(0, 0, 0, 1, 1, 1))
    assert capacity(two, GpuShape(2000)) == 3
    assert capacity(two, GpuShape(2000, same_island=True)) == 2


@pytest.mark.parametrize("spread", [False, True])
def test_the_first_worker_leaves_room_for_the_last(spread: bool) -> None:
    # Halves on GPUs of their own would leave no whole one for the fourth worker.
    found = fit(cells(*(1000,) * 6), GpuShape(1500, spread=spread), 4)
    assert found is not None
    taken: dict[int, int] = {}
    for picks in found.workers:
        for position, millis in picks:
            taken[position] = taken.get(position, 0) + millis
    assert sorted(taken.values()) == [1000] * 6


def test_gpus_with_too_little_memory_are_not_taken() -> None:
    assert fit(cells(1000), GpuShape(1000, 80_001)) is None
    assert capacity(cells(1000), GpuShape(1000, 80_001)) == 0
