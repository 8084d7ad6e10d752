"""The findings of `tgpu doctor` as lines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tgpu.cli.render.grid import Cell, Line, clean

if TYPE_CHECKING:
    from tgpu.cli.findings import Check

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


def check_lines(checks: "Sequence[Check]", least: int = 0) -> list[Line]:
    """The names at least `least` wide: for checks that are shown one by one."""
    wide = max((least, *(len(check.name) for check in checks)))
    lines: list[Line] = []
    for check in checks:
        level = Cell(f"{check.level.value:<5}", _STYLES[check.level.value])
        lines.append((level, Cell(f"{check.name:<{wide}}  ", "bold"), Cell(clean(check.finding))))
        if check.remedy:
            lines.append((Cell(" " * (wide + 7)), Cell(f"mend it: {clean(check.remedy)}")))
    return lines
