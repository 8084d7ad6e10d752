"""Files in pieces: whatever the cuts, the same lines and rows come out."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.api.rest.loading.ingest import LONGEST, Complaint, CsvRows, ItemReader, NdjsonLines
from tgpu.api.rest.problem import ApiProblem
from tgpu.core.errors import InvalidRequest

HEADER = "job_id,tenant_id,gpu_type,gpus,priority,submitted_at\n"


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def read(reader: ItemReader, data: bytes, size: int = 1 << 16) -> list:
    found: list = []
    for piece in pieces(data, size):
        found += reader.feed(piece)
    return [*found, *reader.end()]


@given(text=st.text(st.characters(codec="utf-8")), size=st.integers(1, 20))
def test_lines_are_the_same_however_the_file_is_cut(text, size):
    lines = enumerate(text.encode().removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1)
    expected = [(number, line.strip()) for number, line in lines if line.strip()]
    assert read(NdjsonLines(), text.encode(), size) == expected


tables = st.lists(st.lists(st.text('a",\n\r é', max_size=6), min_size=6, max_size=6), max_size=8)


@given(rows=tables, size=st.integers(1, 30))
def test_rows_are_the_same_however_the_file_is_cut(rows, size):
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    data = (HEADER + text.getvalue()).encode()
    assert read(CsvRows(), data, size) == read(CsvRows(), data, len(data))


@given(text=st.text('a",\n\r\x00é1', max_size=60), size=st.integers(1, 20))
def test_no_table_however_broken_is_a_bug(text, size):
    data = (HEADER + text).encode()
    assert read(CsvRows(), data, size) == read(CsvRows(), data, len(data))


def test_a_quoted_line_break_does_not_end_a_row():
    data = (HEADER + '"a\nb",t,A100,1,5,0\nc,t,A100,1,5,0\n').encode()
    assert [(number, row["job_id"]) for number, row in read(CsvRows(), data, 7)] == [
        (3, "a\nb"),
        (4, "c"),
    ]


def test_the_mark_that_some_editors_put_in_front_is_no_content():
    assert read(NdjsonLines(), b"\xef\xbb\xbf{}\n", 2) == [(1, b"{}")]
    assert read(CsvRows(), b"\xef\xbb\xbf" + HEADER.encode() + b"j,t,A,1,2,3", 2)[0][0] == 2


@pytest.mark.parametrize("reader", [NdjsonLines, CsvRows])
@pytest.mark.parametrize("tail", [b"\xff\xfe", b"\xc3"], ids=["wrong", "cut"])
def test_what_is_not_utf8_is_told(reader, tail):
    with pytest.raises(ApiProblem, match="not UTF-8"):
        read(reader(), HEADER.encode() + tail)


def test_a_line_without_end_takes_no_memory_and_only_itself_down():
    reader = NdjsonLines()
    found = list(reader.feed(b"{}\n"))
    for _ in range(40):
        found += reader.feed(b"x" * (LONGEST // 4))
        assert len(reader._rest) <= 2 * LONGEST
    found += [*reader.feed(b"\n{}\n"), *reader.end()]
    assert [(number, isinstance(item, Complaint)) for number, item in found] == [
        (1, False),
        (2, True),
        (3, False),
    ]


def test_a_row_without_end_is_refused():
    reader = CsvRows()
    list(reader.feed(HEADER.encode()))
    list(reader.feed(b"x" * LONGEST))
    with pytest.raises(ApiProblem, match="a row is longer"):
        list(reader.feed(b"x" * LONGEST))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the header lacks: job_id"),
        ("job_id,gpus\n", "the header lacks: tenant_id"),
        (HEADER.strip() + ",gpus\n", "the header has twice: gpus"),
    ],
)
def test_a_header_that_cannot_be_is_told(text, complaint):
    with pytest.raises(InvalidRequest, match=complaint):
        read(CsvRows(), text.encode(), 5)
