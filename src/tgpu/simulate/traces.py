"""Readers of job lists: tables (CSV, NDJSON) with named columns, the Standard Workload Format, and
the published traces. Files may be packed by gzip. Nothing is guessed: what cannot be read is named.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TextIO

from tgpu.simulate.problems import BadInput, InputProblem
from tgpu.simulate.rows import (
    Refused,
    TraceRow,
    TraceRows,
    gpu_millis,
    number,
    seconds_as_ms,
    whole,
)
from tgpu.text.json_words import json_words

Fields = Mapping[str, str]

# Our names of the columns, and what the published traces call them.
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "job_id": ("job_id",),
    "submit_s": ("submit_s",),
    "duration_s": ("duration_s",),
    "gpus": ("gpus", "gpu_num"),
    "partition": ("partition", "vc"),
    "tenant": ("tenant",),
    "user": ("user",),
    "queue": ("queue",),
    "priority": ("priority",),
    "time_limit_s": ("time_limit_s",),
    "gpu_type": ("gpu_type",),
    "cpus": ("cpus",),
    "memory_mib": ("memory_mib",),
    "workers": ("workers",),
}
NEEDED: Final = ("job_id", "submit_s", "duration_s", "gpus")
FORMATS: Final = ("csv", "ndjson", "swf", "muri", "openb")

_MURI: Final = ("job_id", "num_gpu", "submit_time", "iterations", "iteration_time")
# What the simulator of those traces adds to each iteration.
_MURI_SLOWDOWN: Final = 1.015
_OPENB: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_OPENB_TIMES: Final = ("creation_time", "deletion_time")
_SWF_FIELDS: Final = 18


def read_trace(path: Path, format: str | None = None) -> TraceRows:
    """Read a job list; the format is known by the name and the columns unless it is given."""
    read = _reader(path, format)
    try:
        with open_text(path) as file:
            return read(path.name, file)
    except (csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as error:
        problem = InputProblem(1, "", "the file is damaged, or not whole", "no data")
        raise BadInput(path.name, [problem]) from error


def open_text(path: Path) -> TextIO:
    """A text file, unpacked if need be."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    if packed:
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8", errors="replace", newline="")
    return path.open(encoding="utf-8", errors="replace", newline="")


def _reader(path: Path, format: str | None) -> Callable[[str, TextIO], TraceRows]:
    names = [part.lower() for part in path.suffixes]
    if format is None:
        if ".swf" in names:
            format = "swf"
        else:
            is_lines = any(name in names for name in (".ndjson", ".jsonl"))
            format = "ndjson" if is_lines else "csv"
    readers: dict[str, Callable[[str, TextIO], TraceRows]] = {
        "csv": _read_csv,
        "muri": _read_csv,  # known by their columns
        "openb": _read_csv,
        "ndjson": _read_ndjson,
        "swf": _read_swf,
    }
    if format not in readers:
        raise ValueError(f"no trace format {format!r}; there are: {', '.join(FORMATS)}")
    return readers[format]


# -- tables --------------------------------------------------------------------------------------


def _read_csv(name: str, file: TextIO) -> TraceRows:
    table = csv.DictReader(file)
    columns = [column.strip() for column in table.fieldnames or ()]
    if not columns:
        raise BadInput(name, [InputProblem(1, "", "there is no header with column names", "empty")])
    table.fieldnames = columns
    if set(_MURI) <= set(columns):
        return _collect(TraceRows(name, "muri"), _numbered(table), _muri)
    if set(_OPENB) <= set(columns):
        _need(name, columns, _OPENB_TIMES)
        return _collect(TraceRows(name, "openb"), _numbered(table), _openb)
    missing = [column for column in NEEDED if not set(COLUMNS[column]) & set(columns)]
    if missing:
        _need(name, columns, missing)
    found = {
        ours: next((theirs for theirs in names if theirs in columns), None)
        for ours, names in COLUMNS.items()
    }
    return _collect(TraceRows(name, "csv"), _numbered(table), _table_row(found))


def _need(name: str, columns: Iterable[str], needed: Iterable[str]) -> None:
    missing = [column for column in needed if column not in columns]
    if missing:
        there = ", ".join(columns)
        problems = [
            InputProblem(1, column, f"this column is missing; there are: {there}", "missing column")
            for column in missing
        ]
        raise BadInput(name, problems)


def _numbered(table: "csv.DictReader[str]") -> Iterator[tuple[int, Fields]]:
    for fields in table:
        yield table.line_num, fields


def _read_ndjson(name: str, file: TextIO) -> TraceRows:
    rows = TraceRows(name, "ndjson")

    def lines() -> Iterator[tuple[int, Fields]]:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                found = json.loads(text)
            except ValueError as error:
                rows.problems.append(
                    InputProblem(line, "", f"is not JSON: {json_words(str(error))}", "no JSON")
                )
                continue
            if not isinstance(found, dict):
                rows.problems.append(InputProblem(line, "", "is not JSON object", "no JSON"))
                continue
            yield line, {key: _text(value) for key, value in found.items()}

    return _collect(rows, lines(), _json_row)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _json_row(line: int, fields: Fields) -> TraceRow | None:
    found = {
        ours: next((theirs for theirs in names if theirs in fields), None)
        for ours, names in COLUMNS.items()
    }
    for column in NEEDED:
        if found[column] is None:
            raise Refused(column, "this field is missing", "missing column")
    return _table_row(found)(line, fields)


def _table_row(found: Mapping[str, str | None]) -> Callable[[int, Fields], TraceRow | None]:
    """Reads the columns that there are."""
    names = {ours: theirs for ours, theirs in found.items() if theirs is not None}

    def read(line: int, fields: Fields) -> TraceRow | None:
        if fields.get("in_ref") == "0":
            return None  # the published traces mark the rows that their figures are about

        def text(column: str) -> str:
            return (fields.get(names[column]) or "").strip() if column in names else ""

        job_id = text("job_id")
        if not job_id:
            raise Refused("job_id", "is empty", "no id")
        limit, priority, workers = text("time_limit_s"), text("priority"), text("workers")
        return TraceRow(
            line,
            job_id,
            seconds_as_ms(names["submit_s"], text("submit_s")),
            seconds_as_ms(names["duration_s"], text("duration_s")),
            gpu_millis(names["gpus"], text("gpus")),
            partition=text("partition"),
            tenant=text("tenant"),
            user=text("user"),
            queue=text("queue"),
            priority=whole("priority", priority, -(2**31)) if priority else None,
            time_limit_ms=(
                seconds_as_ms("time_limit_s", limit, may_be_zero=False) if limit else None
            ),
            gpu_types=tuple(filter(None, text("gpu_type").split("|"))),
            cpu_millis=round(number("cpus", text("cpus")) * 1000) if text("cpus") else 0,
            mem_mib=whole("memory_mib", text("memory_mib")) if text("memory_mib") else 0,
            workers=whole("workers", workers, 1) if workers else None,
        )

    return read


# -- published ones ------------------------------------------------------------------------------


def _muri(line: int, fields: Fields) -> TraceRow:
    each = number("iteration_time", fields["iteration_time"])
    iterations = number("iterations", fields["iterations"])
    run_s = f"{iterations * each * _MURI_SLOWDOWN / 1000:.3f}"
    submit_s = f"{number('submit_time', fields['submit_time']) / 1000:.3f}"
    return TraceRow(
        line,
        fields["job_id"],
        seconds_as_ms("submit_time", submit_s),
        seconds_as_ms("iterations", run_s),
        gpu_millis("num_gpu", fields["num_gpu"]),
    )


def _openb(line: int, fields: Fields) -> TraceRow | None:
    count = whole("num_gpu", fields["num_gpu"])
    if not count:
        return None  # they want no GPU
    share = whole("gpu_milli", fields["gpu_milli"], 1) if count == 1 else 1000 * count
    began = seconds_as_ms("creation_time", fields["creation_time"])
    ended = seconds_as_ms("deletion_time", fields["deletion_time"])
    if ended < began:
        raise Refused("deletion_time", "is before creation_time", "negative time")
    return TraceRow(
        line,
        fields["name"],
        began,
        ended - began,
        share,
        gpu_types=tuple(filter(None, (fields.get("gpu_spec") or "").split("|"))),
        cpu_millis=whole("cpu_milli", fields["cpu_milli"]),
        mem_mib=whole("memory_mib", fields["memory_mib"]),
    )


# -- Standard Workload Format --------------------------------------------------------------------


def _read_swf(name: str, file: TextIO) -> TraceRows:
    def lines() -> Iterator[tuple[int, Fields]]:
        for line, text in enumerate(file, 1):
            words = text.partition(";")[0].split()
            if words:
                yield line, {str(at): word for at, word in enumerate(words, 1)}

    return _collect(TraceRows(name, "swf"), lines(), _swf)


def _swf(line: int, fields: Fields) -> TraceRow:
    """Processors are taken for GPUs. -1 stands for what nobody knows."""
    if len(fields) != _SWF_FIELDS:
        text = f"has {len(fields)} fields instead of {_SWF_FIELDS}"
        raise Refused("", text, "missing column")
    wanted = fields["8"] if not fields["8"].startswith("-") else fields["5"]
    limit, queue, partition = fields["9"], fields["15"], fields["16"]
    return TraceRow(
        line,
        fields["1"],
        seconds_as_ms("field 2 (submit time)", fields["2"]),
        seconds_as_ms("field 4 (run time)", fields["4"]),
        gpu_millis("field 8 (processors)", wanted),
        user="" if fields["12"] == "-1" else fields["12"],
        tenant="" if fields["13"] == "-1" else fields["13"],
        queue="" if queue == "-1" else queue,
        partition="" if partition == "-1" else partition,
        time_limit_ms=seconds_as_ms("field 9 (time limit)", limit) or None
        if not limit.startswith("-")
        else None,
    )


def _collect(
    rows: TraceRows,
    lines: Iterable[tuple[int, Fields]],
    read: Callable[[int, Fields], TraceRow | None],
) -> TraceRows:
    ids: dict[str, int] = {}
    for line, fields in lines:
        try:
            if None in fields:  # what a reader of CSV has left over
                raise Refused("", "has more fields than the header", "extra column")
            row = read(line, fields)
        except Refused as error:
            rows.problems.append(InputProblem(line, error.column, error.text, error.kind))
            continue
        except (KeyError, TypeError, AttributeError):
            text = "has fewer fields than the header"
            rows.problems.append(InputProblem(line, "", text, "missing column"))
            continue
        if row is None:
            rows.left_out += 1
        elif (before := ids.setdefault(row.job_id, line)) != line:
            text = f"{row.job_id} is the id of line {before} too"
            rows.problems.append(InputProblem(line, "job_id", text, "duplicate id"))
        else:
            rows.jobs.append(row)
    return rows
