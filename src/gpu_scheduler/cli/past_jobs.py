"""Reads lists of jobs that ended, for measuring predictors: CSV, plain or gzip.

Columns: `submit_s`, `duration_s` and `gpu_num` are needed; `user`, `name`, `command`, `gpu_type`,
`vc` or `tenant`, `limit_s` and `end_s` are used where they are; `in_ref` 0 marks jobs that count
for learning alone.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from gpu_scheduler.cli.failures import bad_input
from gpu_scheduler.core.calibration import PastJob
from gpu_scheduler.core.predict import Facts, template
from gpu_scheduler.core.units import GPU, SECOND

_NEEDED: Final = ("submit_s", "duration_s", "gpu_num")
_GZIP: Final = b"\x1f\x8b"
_MOST_SECONDS: Final = 100 * 365 * 86_400  # a hundred years: a slip, not an instant


def read_past_jobs(path: Path, *, scored: bool) -> list[PastJob]:
    """What cannot be is refused with its line and column."""
    with _opened(path) as file:
        rows = csv.DictReader(file)
        try:
            return list(_read(path, rows, scored))
        except (UnicodeDecodeError, csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise bad_input(f"{path} is no CSV: {error}") from error


def _opened(path: Path) -> IO[str]:
    with path.open("rb") as file:
        is_packed = file.read(2) == _GZIP
    if is_packed:
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _read(path: Path, rows: "csv.DictReader[str]", scored: bool) -> Iterator[PastJob]:
    missing = [name for name in _NEEDED if name not in (rows.fieldnames or ())]
    if missing:
        raise bad_input(
            f"{path}: line 1: there is no column {missing[0]!r}",
            f"the columns {', '.join(_NEEDED)} are needed",
        )
    for row in rows:
        where = f"{path}: line {rows.line_num}"
        submitted = _seconds(where, row, "submit_s")
        duration = _seconds(where, row, "duration_s", least=0)
        ended = submitted + duration
        if row.get("end_s"):
            ended = _seconds(where, row, "end_s", least=submitted / SECOND)
        yield PastJob(
            _facts(where, row), submitted, duration, ended, scored and row.get("in_ref") != "0"
        )


def _facts(where: str, row: Mapping[str, str]) -> Facts:
    gpus = _number(where, row, "gpu_num", least=0, most=100_000)
    return Facts(
        tenant_id=row.get("vc") or row.get("tenant") or "",
        user=row.get("user") or "",
        gpu_millis=round(gpus * GPU),
        gpu_type=row.get("gpu_type") or "",
        name=template(row.get("name") or ""),
        command=template(row.get("command") or ""),
        time_limit_ms=_seconds(where, row, "limit_s", least=0) if row.get("limit_s") else None,
    )


def _seconds(where: str, row: Mapping[str, str], column: str, least: float | None = None) -> int:
    low = -_MOST_SECONDS if least is None else least
    return round(_number(where, row, column, least=low, most=_MOST_SECONDS) * SECOND)


def _number(where: str, row: Mapping[str, str], column: str, *, least: float, most: float) -> float:
    text = row.get(column) or ""
    try:
        value = float(text)
    except ValueError:
        raise bad_input(f"{where}, column {column}: {text!r} is no number") from None
    if not least <= value <= most:
        raise bad_input(f"{where}, column {column}: {text} is not from {least:g} to {most:g}")
    return value
