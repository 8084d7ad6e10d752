"""Reads lists of jobs that are over, for predictors to learn from: CSV, plain or gzip.

The columns are those of traces, and `name`, `command` and `end_s` where they are. Times may be
negative: instants before a trace begins. `in_ref` 0 marks jobs that count for learning alone.
"""

import csv
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tgpu.core.prediction.calibration import PastJob
from tgpu.core.prediction.runtimes import Facts, template
from tgpu.simulate.problems import BadInput, InputProblem
from tgpu.simulate.rows import MOST_SECONDS, Refused, gpu_millis, number, seconds_as_ms
from tgpu.simulate.traces import COLUMNS, open_text

_NEEDED: Final = ("submit_s", "duration_s", "gpus")
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    **COLUMNS,
    "tenant": ("tenant", "vc", "partition"),
    "time_limit_s": ("time_limit_s", "limit_s"),
    "name": ("name",),
    "command": ("command",),
    "end_s": ("end_s",),
}


def read_past_jobs(path: Path, *, scored: bool = False) -> list[PastJob]:
    """BadInput names what cannot be, by line and column."""
    problems: list[InputProblem] = []
    with open_text(path) as file:
        table = csv.DictReader(file)
        try:
            columns = tuple(table.fieldnames or ())
            names = {
                ours: next(name for name in theirs if name in columns)
                for ours, theirs in _COLUMNS.items()
                if set(theirs) & set(columns)
            }
            missing = [_COLUMNS[name][-1] for name in _NEEDED if name not in names]
            if missing:
                there = f"this column is missing; there are: {', '.join(columns)}"
                raise BadInput(
                    path.name, [InputProblem(1, one, there, "missing column") for one in missing]
                )
            found = list(_jobs(table, names, scored, problems))
        except (csv.Error, EOFError, OSError, zlib.error) as error:
            text = "cannot be read: the file is damaged, or not whole"
            raise BadInput(
                path.name, [InputProblem(table.line_num, "", text, "no data")]
            ) from error
    if problems:
        raise BadInput(path.name, problems)
    return found


def _jobs(
    table: "csv.DictReader[str]",
    names: Mapping[str, str],
    scored: bool,
    problems: list[InputProblem],
) -> Iterator[PastJob]:
    for fields in table:
        try:
            yield _job(fields, names, scored)
        except Refused as error:
            problems.append(InputProblem(table.line_num, error.column, error.text, error.kind))


def _job(fields: Mapping[str, str | None], names: Mapping[str, str], scored: bool) -> PastJob:
    def text(column: str) -> str:
        return (fields.get(names[column]) or "").strip() if column in names else ""

    submitted = _instant_ms(names["submit_s"], text("submit_s"))
    duration = seconds_as_ms(names["duration_s"], text("duration_s"))
    ended = submitted + duration
    if text("end_s"):
        ended = _instant_ms("end_s", text("end_s"))
        if ended < submitted:
            raise Refused(
                "end_s", f"{text('end_s')} is before {names['submit_s']}", "negative time"
            )
    limit, gpus = text("time_limit_s"), text("gpus")
    facts = Facts(
        tenant_id=text("tenant"),
        user=text("user"),
        gpu_millis=gpu_millis(names["gpus"], gpus) if number(names["gpus"], gpus) else 0,
        gpu_type=text("gpu_type"),
        name=template(text("name")),
        command=template(text("command")),
        time_limit_ms=seconds_as_ms(names["time_limit_s"], limit) if limit else None,
    )
    return PastJob(facts, submitted, duration, ended, scored and fields.get("in_ref") != "0")


def _instant_ms(column: str, text: str) -> int:
    value = number(column, text)
    if abs(value) > MOST_SECONDS:
        raise Refused(
            column, f"{text} s is more than ten years away; is it in another unit?", "absurd time"
        )
    return round(value * 1000)
