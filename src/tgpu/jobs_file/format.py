"""The text format of the jobs file: one job per line. Pure.

    # Priority, Script, Conda_Env, Arguments, Allowed_GPUs
    0,/data/evaluate.py,ml_env,--llm qwen2.5-3b-inst --mode test,0-3

Cells may stand in double quotes as in CSV, which arguments with commas need.
"""

import csv
import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tgpu.text.gpu_names import GpuChoice, is_gpus, read_gpus

# High, normal and low, on the scale that all other jobs have.
CLASS_PRIORITY: Final = {0: 1500, 1: 750, 2: 300}
MOST_BYTES: Final = 16 * 1024 * 1024  # of a file: a log or a data set given by mistake
_LONGEST_LINE: Final = 65_536
_GPU_RULE: Final = "allowed GPUs must be like 0-3 or 4,5,6 or b/0-3 or empty"
_NEEDED: Final = 2  # the columns that every line has: priority and script


@dataclass(frozen=True, slots=True)
class JobLine:
    """A line that asks for a job. `digest` is of its content, so spaces around cells do not count.

    The script is as it was written: relative to the file, or with a ~.
    """

    number: int  # from 1
    priority_class: int
    script: str
    conda: str = ""
    args: tuple[str, ...] = ()
    gpus: tuple[GpuChoice, ...] = ()  # empty: any

    @property
    def digest(self) -> str:
        content = [self.priority_class, self.script, self.conda, self.args, self.gpus]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class BadLine:
    number: int
    problem: str


@dataclass(frozen=True, slots=True)
class JobsFile:
    lines: tuple[JobLine, ...] = ()
    bad: tuple[BadLine, ...] = ()
    repeats: tuple[tuple[int, int], ...] = ()  # a line, and the earlier one that says the same


def parse_jobs_file(content: bytes) -> JobsFile:
    """Every line is judged by itself: bad ones are in the answer and stop nothing."""
    lines: list[JobLine] = []
    bad: list[BadLine] = []
    repeats: list[tuple[int, int]] = []
    first: dict[str, int] = {}
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            line = _line(number, raw)
        except ValueError as error:
            bad.append(BadLine(number, str(error)))
            continue
        if line is None:
            continue
        if line.digest in first:
            repeats.append((number, first[line.digest]))
        else:
            first[line.digest] = number
            lines.append(line)
    return JobsFile(tuple(lines), tuple(bad), tuple(repeats))


def parse_class(text: str) -> int:
    """The priority class; ValueError says what may stand there."""
    if text not in ("0", "1", "2"):
        raise ValueError(f"priority must be 0 (high), 1 (normal) or 2 (low), not {text!r}")
    return int(text)


def parse_gpus(text: str) -> tuple[GpuChoice, ...]:
    """ "0-3", "4,5,6" and "b/0-3"; nothing for "", which allows every GPU."""
    if not text.strip():
        return ()
    if not is_gpus(text):
        raise ValueError(f"{_GPU_RULE}, not {text!r}")
    try:
        return tuple(read_gpus(text))
    except ValueError as error:
        raise ValueError(f"allowed GPUs: {error}") from None


def _line(number: int, raw: bytes) -> JobLine | None:
    """None for what is empty or a comment."""
    if len(raw) > _LONGEST_LINE:
        raise ValueError(f"is longer than {_LONGEST_LINE} bytes")
    try:
        text = raw.decode().strip()
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
    if not text or text.startswith("#"):
        return None
    if "\0" in text or "\r" in text:
        raise ValueError("has characters that are not text")
    cells = [cell.strip() for cell in _cells(text)]
    if len(cells) < _NEEDED:
        raise ValueError(
            "has too few columns: write priority, script, conda environment, arguments, allowed "
            "GPUs, with commas between them"
        )
    priority_class = parse_class(cells[0])
    if not cells[1]:
        raise ValueError("names no script in its second column")
    args, gpus = _arguments_and_gpus(cells[3:])
    return JobLine(
        number,
        priority_class,
        cells[1],
        _conda(cells[2] if len(cells) > _NEEDED else ""),
        _words(args),
        parse_gpus(gpus),
    )


def _cells(text: str) -> list[str]:
    try:
        return next(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise ValueError(f"has quotes that do not match: {error}") from None


def _arguments_and_gpus(cells: Sequence[str]) -> tuple[str, str]:
    """What follows the third column. GPUs have commas of their own, and arguments may: the last
    cells that look like GPUs are the GPUs. A line may end with the arguments.
    """
    if len(cells) <= 1:
        return (cells[0] if cells else ""), ""
    start = len(cells) - 1
    if cells[-1] and not is_gpus(cells[-1]):
        raise ValueError(
            f"{_GPU_RULE}, not {cells[-1]!r}; arguments with commas need double quotes around them"
        )
    while cells[-1] and start > 1 and is_gpus(cells[start - 1]):
        start -= 1
    return ",".join(cells[:start]), ",".join(cells[start:])


def _conda(name: str) -> str:
    if name.startswith("-"):
        raise ValueError(f"conda environment {name!r} begins with a dash: is a comma missing?")
    return name


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"arguments: {str(error).lower()} in {text!r}") from None
