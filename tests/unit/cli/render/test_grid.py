import pytest
from rich.cells import cell_len

from tgpu.cli.render.grid import Cell, Column, Grid, clean, facts, lay_out, shorten

COLUMNS = (
    Column("JOB", least=4),
    Column("NAME", least=5, leave_out=1),
    Column("PRIO", leave_out=2, right=True),
    Column("REASON", least=10),
)


def lines_of(rows: list[tuple[str, ...]], width: int | None) -> list[str]:
    grid = Grid(COLUMNS, tuple(tuple(Cell(text) for text in row) for row in rows))
    return ["".join(cell.text for cell in line).rstrip() for line in lay_out(grid, width)]


ROW = ("12", "a long name", "500", "needs four GPUs and there are three")


def test_without_a_width_nothing_is_cut():
    assert lines_of([ROW], None) == [
        "JOB  NAME         PRIO  REASON",
        "12   a long name   500  needs four GPUs and there are three",
    ]


def test_the_name_is_cut_before_the_reason():
    assert lines_of([ROW], 55)[1] == "12   a long…   500  needs four GPUs and there are three"


def test_columns_are_left_out_in_their_order():
    assert lines_of([ROW], 25)[0] == "JOB  NAME   REASON"
    assert lines_of([ROW], 18)[0] == "JOB  REASON"


def test_the_last_column_is_cut_to_the_rest_in_the_end():
    assert lines_of([ROW], 12)[1] == "12   needs…"


@pytest.mark.parametrize("width", range(8, 90))
def test_no_line_is_wider_than_the_terminal(width):
    assert all(
        cell_len(line) <= width for line in lines_of([ROW, ("1", "日本語の名前", "1", "x")], width)
    )


def test_a_column_that_nobody_fills_is_not_shown():
    assert lines_of([("1", "", "", "r")], None)[0] == "JOB  REASON"


def test_a_long_id_is_cut_last():
    row = ("an-id-that-someone-chose", "name", "1", "why")
    assert lines_of([row], 44)[1].startswith("an-id-that-someone-chose  ")


def test_wide_characters_are_counted_as_two():
    assert shorten("日本語", 4) == "日…"


def test_control_characters_never_reach_the_terminal():
    assert clean("a\x1b[31mb\nc\u202e") == "a [31mb c "


def test_facts_align_values_of_several_lines():
    lines = ["".join(cell.text for cell in line) for line in facts([("a", "1"), ("long", "x\ny")])]
    assert lines == ["a     1", "long  x", "      y"]
