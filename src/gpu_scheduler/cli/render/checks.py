"""The findings of `tgpu doctor` as lines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpu_scheduler.cli.render.grid import Cell, Line, clean

if TYPE_CHECKING:
    from gpu_scheduler.cli.checks import Check

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


def check_lines(checks: "Sequence[Check]") -> list[Line]:
    wide = max((len(check.name) for check in checks), default=0)
    lines: list[Line] = []
    for check in checks:
        level = Cell(f"{check.level.value:<5}", _STYLES[check.level.value])
        lines.append((level, Cell(f"{check.name:<{wide}}  ", "bold"), Cell(clean(check.finding))))
        if check.remedy:
            lines.append((Cell(" " * (wide + 7)), Cell(f"mend it: {clean(check.remedy)}")))
    return lines
