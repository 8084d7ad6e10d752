"""The jobs of a file, read piece by piece: lines of JSON, or CSV under a header.

A reader is fed the file as it comes in and gives back what is complete; it holds no more than the
one line or row that is not.
"""

import codecs
import csv
import io
from collections.abc import Iterator
from typing import Any, Final, Protocol

from tgpu.api.rest.loading.plain import PlainJob
from tgpu.api.rest.problem import ApiProblem
from tgpu.core.errors import InvalidRequest

LONGEST: Final = 1 << 17  # bytes of a line or row; a job takes a few hundred
_BOM: Final = "\ufeff"
_TOO_LONG: Final = f"longer than {LONGEST} bytes"
_NUMBERS: Final = ("gpus", "priority", "submitted_at", "max_runtime")
_OPTIONAL: Final = ("max_runtime", "image")

# A place in the file, and what stands there: what is to become a job, or a complaint about it.
Item = tuple[int, Any]


class Complaint(str):
    """What is wrong with a line, in place of what would have been its content."""

    __slots__ = ()


class ItemReader(Protocol):
    def feed(self, data: bytes) -> Iterator[Item]:
        """More of the file. Raises Problem where it is not UTF-8."""

    def end(self) -> Iterator[Item]:
        """There is no more."""


def reader_for(fmt: str) -> ItemReader:
    return NdjsonLines() if fmt == "ndjson" else CsvRows()


class Utf8:
    """Bytes in pieces as text: a character may be cut in two."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._is_begun = False

    def of(self, data: bytes, *, final: bool = False) -> str:
        try:
            text = self._decoder.decode(data, final)
        except UnicodeDecodeError:
            raise ApiProblem(400, "BAD_ENCODING", "the file is not UTF-8 text") from None
        if text and not self._is_begun:
            self._is_begun = True
            text = text.removeprefix(_BOM)
        return text


class NdjsonLines:
    """Lines with their numbers from 1; blank ones are passed over."""

    def __init__(self) -> None:
        self._text = Utf8()
        self._rest = b""
        self._number = 0
        self._is_skipping = False  # the rest of a line that is too long

    def feed(self, data: bytes) -> Iterator[Item]:
        # Checked as text, decoded as bytes: that is what the decoder of jobs reads fastest.
        self._text.of(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield from self._line(line)
        if len(self._rest) > LONGEST:
            self._rest, self._is_skipping = b"", True

    def end(self) -> Iterator[Item]:
        self._text.of(b"", final=True)
        yield from self._line(self._rest)

    def _line(self, line: bytes) -> Iterator[Item]:
        self._number += 1
        if self._number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)  # some editors put it in front
        if self._is_skipping or len(line) > LONGEST:
            self._is_skipping = False
            yield self._number, Complaint(f"the line is {_TOO_LONG}")
        elif stripped := line.strip():
            yield self._number, stripped


class CsvRows:
    """Rows with their line numbers, as objects under the names of the header."""

    def __init__(self) -> None:
        self._text = Utf8()
        self._rest = ""
        self._header: list[str] | None = None
        self._before = 0  # lines that were read and let go of

    def feed(self, data: bytes) -> Iterator[Item]:
        text = self._rest + self._text.of(data)
        cut = text.rfind("\n") + 1
        yield from self._rows(text[:cut], text[cut:], is_last=False)

    def end(self) -> Iterator[Item]:
        yield from self._rows(self._rest + self._text.of(b"", final=True), "", is_last=True)
        if self._header is None:
            self._begin([])

    def _rows(self, text: str, rest: str, *, is_last: bool) -> Iterator[Item]:
        """A row that others follow is whole; the last one may go on in the next piece."""
        lines = io.StringIO(text, newline="").readlines()  # as the csv module counts them
        reader = csv.reader(lines)
        pending: tuple[int, list[str] | Complaint] | None = None
        begins = ends = 0  # the lines of the pending row
        for row in self._parsed(reader):
            if pending is not None:
                yield from self._row(*pending)
            pending = self._before + reader.line_num, row
            begins, ends = ends, reader.line_num
        tail = "".join(lines[begins:])
        is_whole = is_last or len(tail) > LONGEST
        if pending is not None and (is_whole or isinstance(pending[1], Complaint)):
            yield from self._row(*pending)
            tail, begins = "", ends
        self._before += begins
        self._rest = tail + rest
        if len(self._rest) > 2 * LONGEST:
            raise ApiProblem(422, "VALIDATION_ERROR", f"file: a row is {_TOO_LONG}")

    def _parsed(self, reader: Iterator[list[str]]) -> Iterator[list[str] | Complaint]:
        while True:
            try:
                yield next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield Complaint(str(error))

    def _row(self, number: int, row: list[str] | Complaint) -> Iterator[Item]:
        if isinstance(row, Complaint):
            if self._header is None:
                raise InvalidRequest("file", "", f"the header cannot be read: {row}")
            yield number, row
        elif self._header is None:
            self._begin(row)
        elif any(value.strip() for value in row):
            if len(row) != len(self._header):
                complaint = f"{len(row)} values under a header of {len(self._header)}"
                yield number, Complaint(complaint)
            else:
                values = (value.strip() for value in row)
                yield number, _typed(dict(zip(self._header, values, strict=True)))

    def _begin(self, row: list[str]) -> None:
        names = [name.strip() for name in row]
        missing = [f for f in PlainJob.__struct_fields__ if f not in (*names, *_OPTIONAL)]
        twice = sorted({name for name in names if names.count(name) > 1})
        complaint = ""
        if missing:
            complaint = f"the header lacks: {', '.join(missing)}"
        elif twice:
            complaint = f"the header has twice: {', '.join(twice)}"
        if complaint:
            raise InvalidRequest("file", ",".join(row)[:60], complaint)
        self._header = names


def _typed(row: dict[str, str]) -> dict[str, Any]:
    typed: dict[str, Any] = {}
    for name, value in row.items():
        if name == "max_runtime" and not value:
            continue
        typed[name] = _number(value) if name in _NUMBERS else value
    return typed


def _number(text: str) -> int | float | str:
    """What it says, or the text itself, for the validation to complain about."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
