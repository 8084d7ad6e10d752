"""Budgets as a table."""

from typing import Final

from tgpu.cli.render.grid import Cell, Column, Grid, clean
from tgpu.cli.render.words import number_text
from tgpu.text.instants import local_text
from tgpu.wire.budgets_v1 import BudgetList, BudgetStatus

_COLUMNS: Final = (
    Column("TENANT", least=12),
    Column("WINDOW"),
    Column("SPENT", right=True),
    Column("OF", right=True),
    Column("LEFT", right=True),
    Column("USE", right=True),
    Column("GPUS", right=True, leave_out=2),
    Column("COST", right=True, leave_out=3),
    Column("RUNS OUT", leave_out=1),
    Column("RENEWED", leave_out=4),
    Column("THEN", leave_out=5),
)


def budget_grid(found: BudgetList) -> Grid:
    return Grid(_COLUMNS, tuple(_row(status) for status in found.budgets))


def _row(status: BudgetStatus) -> tuple[Cell, ...]:
    colour = "red" if status.used_up else "yellow" if status.percent >= 80 else ""
    return (
        Cell(clean(status.tenant_id)),
        Cell(status.window),
        Cell(f"{status.spent_gpu_hours:.2f}", colour),
        Cell(f"{status.budget_gpu_hours:.2f}"),
        Cell(f"{status.left_gpu_hours:.2f}"),
        Cell(f"{status.percent:.0f} %", colour),
        Cell(number_text(status.current_gpus)),
        Cell("" if status.spent_cost is None else f"{status.spent_cost:.2f}"),
        Cell("used up" if status.used_up else _instant(status.runs_out_at), colour),
        Cell(_instant(status.window_end)),
        Cell(_THEN[status.action]),
    )


_THEN: Final = {"warn": "says so", "hold": "starts no more", "stop": "ends its jobs"}


def _instant(text: str | None) -> str:
    return local_text(text or "")[:16]
