"""What `watch` shows on a screen of a given height."""

import pytest

from tgpu.cli.live import Frame, fitted
from tgpu.cli.render.grid import Cell, Line

CLOCK: Line = (Cell("12:00:00"),)
FOOT: Line = (Cell("3 running"),)


def shown(rows: int, height: int, *, is_part: bool = False) -> list[str]:
    body: list[Line] = [(Cell(f"row {n}"),) for n in range(rows)]
    lines = fitted(Frame(body, (FOOT,), "tgpu list", is_part), CLOCK, height)
    return ["".join(cell.text for cell in line) for line in lines]


def test_what_fits_is_shown_whole_with_clock_and_counts():
    assert shown(3, 10) == ["12:00:00", "row 0", "row 1", "row 2", "3 running"]


def test_what_is_cut_is_told():
    assert shown(20, 8) == [
        "12:00:00",
        *(f"row {n}" for n in range(5)),
        "… 15 more: tgpu list",
        "3 running",
    ]


def test_that_the_service_has_more_is_told_too():
    assert shown(2, 10, is_part=True)[-2:] == ["… more: tgpu list", "3 running"]
    assert shown(20, 8, is_part=True)[-2] == "… 15 more, and others: tgpu list"


@pytest.mark.parametrize("rows", [0, 1, 5, 6, 7, 100])
@pytest.mark.parametrize("height", [1, 3, 5, 6, 7, 8, 30])
@pytest.mark.parametrize("is_part", [True, False])
def test_it_is_never_higher_than_the_screen(rows, height, is_part):
    assert len(shown(rows, height, is_part=is_part)) <= height


def test_a_very_low_screen_has_the_table_alone():
    assert shown(20, 4) == ["row 0", "row 1", "row 2", "row 3"]
