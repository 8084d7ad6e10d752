"""The result of `tgpu sim pack` as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from tgpu.cli.render.grid import Cell, Column, Grid


def packing_grid(lists: Sequence[Mapping[str, Any]]) -> Grid:
    columns = (
        Column("REQUESTS", least=12),
        Column("IN USE %", right=True),
        Column("LEAST", right=True, leave_out=2),
        Column("MOST", right=True, leave_out=2),
        Column("SEEDS", right=True, leave_out=3),
        Column("PLACED", right=True, leave_out=1),
        Column("DROPPED", right=True, leave_out=1),
        Column("A SECOND", right=True),
    )
    return Grid(columns, tuple(_row(one) for one in lists))


def _row(one: Mapping[str, Any]) -> tuple[Cell, ...]:
    runs = one["runs"]
    shares = [run["allocated_percent"] for run in runs]
    dropped = sum(run["dropped"] for run in runs)
    placed = sum(run["requests"] for run in runs) - dropped
    texts = (
        one["pods"],
        f"{one['allocated_percent']:.2f}",
        f"{min(shares):.2f}",
        f"{max(shares):.2f}",
        str(len(runs)),
        f"{placed:,}",
        f"{dropped:,}",
        f"{one['placements_per_second']:,}",
    )
    return tuple(Cell(text) for text in texts)
