"""Tables that fit: columns are shortened, then left out, until a row takes one line."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.cells import cell_len, set_cell_size

_GAP: Final = 2


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    style: str = ""


Line = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """`least` is the width it may be cut to; `leave_out` > 0 lets it go, the highest first.

    The last column is cut further once nothing can be left out any more. With `want`, columns that
    are `extra` go before this one is cut below that width.
    """

    title: str
    least: int | None = None  # None: not cut
    leave_out: int = 0
    right: bool = False
    want: int | None = None  # None: `least`
    extra: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


def lay_out(grid: Grid, width: int | None) -> list[Line]:
    """The grid as lines of at most `width` columns; None takes what it needs."""
    kept, widths = _choose(grid, width)
    header = tuple(Cell(column.title, "bold") for column in grid.columns)
    return [
        _line(row, [grid.columns[index] for index in kept], kept, widths)
        for row in (header, *grid.rows)
    ]


def fit(grid: Grid, width: int | None) -> Grid:
    """The columns that there is room for, with texts cut to theirs."""
    kept, widths = _choose(grid, width)
    rows = tuple(
        tuple(
            replace(row[index], text=shorten(row[index].text, wide))
            for index, wide in zip(kept, widths, strict=True)
        )
        for row in grid.rows
    )
    return Grid(tuple(grid.columns[index] for index in kept), rows)


def _choose(grid: Grid, width: int | None) -> tuple[list[int], list[int]]:
    """Which columns are shown, and how wide each is."""
    kept = [index for index, _ in enumerate(grid.columns) if _has_content(grid, index)]
    natural = {index: _natural(grid, index) for index in kept}
    while True:
        columns = [grid.columns[index] for index in kept]
        if any(column.extra for column in columns):
            columns = [replace(column, least=column.want or column.least) for column in columns]
        widths = _fit([(c, natural[i]) for c, i in zip(columns, kept, strict=True)], width)
        candidates = [index for index in kept if grid.columns[index].leave_out]
        if widths is not None or not candidates:
            break
        kept.remove(max(candidates, key=lambda index: grid.columns[index].leave_out))
    if widths is None:
        last = replace(grid.columns[kept[-1]], least=1)
        columns = [*(grid.columns[index] for index in kept[:-1]), last]
        widths = _fit([(c, natural[i]) for c, i in zip(columns, kept, strict=True)], width)
    if widths is None:
        widths = [natural[index] for index in kept]
    return kept, widths


def facts(pairs: Sequence[tuple[str, str]], style: str = "bold") -> list[Line]:
    """Names and values under each other; several lines in a value stay aligned."""
    wide = max((cell_len(name) for name, _ in pairs), default=0)
    lines: list[Line] = []
    for name, value in pairs:
        for number, text in enumerate(value.splitlines() or [""]):
            label = name if number == 0 else ""
            lines.append((Cell(set_cell_size(label, wide) + "  ", style), Cell(clean(text))))
    return lines


def clean(text: str) -> str:
    """Without control characters: a job's name must not repaint the reader's terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in text)


def shorten(text: str, width: int) -> str:
    """Cut to `width` columns, with an ellipsis where something is missing."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def _has_content(grid: Grid, index: int) -> bool:
    return not grid.columns[index].leave_out or any(row[index].text for row in grid.rows)


def _natural(grid: Grid, index: int) -> int:
    return max(
        cell_len(grid.columns[index].title), *(cell_len(row[index].text) for row in grid.rows), 0
    )


def _fit(columns: list[tuple[Column, int]], width: int | None) -> list[int] | None:
    """Widths that fit; None where cutting is not enough. The first column names the row, so it
    is cut last."""
    widths = [natural for _, natural in columns]
    if width is None:
        return widths
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    excess = _level(columns, widths, excess)
    for position in (*range(1, len(columns)), 0):
        column, _ = columns[position]
        if excess <= 0:
            break
        if column.least is not None and widths[position] > column.least:
            cut = min(excess, widths[position] - column.least)
            widths[position] -= cut
            excess -= cut
    return widths if excess <= 0 else None


def _level(columns: list[tuple[Column, int]], widths: list[int], excess: int) -> int:
    """Cut the widest, and then again the widest, as far as they want to be; the excess left."""
    while excess > 0:
        wide = [
            (widths[position], position)
            for position, (column, _) in enumerate(columns)
            if column.want is not None and widths[position] > column.want
        ]
        if not wide:
            break
        widths[max(wide)[1]] -= 1
        excess -= 1
    return excess


def _line(row: tuple[Cell, ...], columns: list[Column], kept: list[int], widths: list[int]) -> Line:
    cells: list[Cell] = []
    for position, (column, index, width) in enumerate(zip(columns, kept, widths, strict=True)):
        text = shorten(row[index].text, width)
        space = " " * (width - cell_len(text))
        padded = space + text if column.right else text + space
        gap = " " * _GAP if position < len(kept) - 1 else ""
        cells.append(Cell(padded + gap, row[index].style))
    return tuple(cells)
