"""Jobs as files have them, in one form: what every reader of traces makes."""

from dataclasses import dataclass, field
from math import isfinite
from typing import Final, NamedTuple

from tgpu.simulate.problems import InputProblem

MOST_SECONDS: Final = 10 * 365 * 86_400  # longer than any trace, and than any job
MOST_GPUS: Final = 1_000_000


class TraceRow(NamedTuple):
    """One job of a file. Amounts are of the whole job."""

    line: int
    job_id: str
    submit_ms: int
    run_ms: int
    gpu_millis: int
    partition: str = ""
    tenant: str = ""
    user: str = ""
    queue: str = ""
    priority: int | None = None
    time_limit_ms: int | None = None
    gpu_types: tuple[str, ...] = ()
    cpu_millis: int = 0
    mem_mib: int = 0
    workers: int | None = None


@dataclass(slots=True)
class TraceRows:
    """A file as it was read: its jobs, what is wrong with others, what was left out on purpose."""

    file: str
    format: str
    jobs: list[TraceRow] = field(default_factory=list)
    problems: list[InputProblem] = field(default_factory=list)
    left_out: int = 0


class Refused(Exception):
    """A value that cannot be; becomes a `Problem` where the line is known."""

    def __init__(self, column: str, text: str, kind: str) -> None:
        self.column = column
        self.text = text
        self.kind = kind
        super().__init__(text)


def seconds_as_ms(column: str, text: str, *, may_be_zero: bool = True) -> int:
    """A time in seconds, whole or not, as milliseconds."""
    value = number(column, text)
    if value < 0:
        raise Refused(column, f"{text} is negative; it must be 0 or more", "negative time")
    if value > MOST_SECONDS:
        raise Refused(
            column, f"{text} s is more than ten years; is it in another unit?", "absurd time"
        )
    if not value and not may_be_zero:
        raise Refused(column, "is 0; it must be more", "no time")
    return round(value * 1000)


def number(column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        shown = repr(text) if text.strip() else "nothing"
        raise Refused(column, f"{shown} is not a number", "no number") from None
    if not isfinite(value):
        raise Refused(column, f"{text} is not a number", "no number")
    return value


def whole(column: str, text: str, least: int = 0) -> int:
    value = number(column, text)
    if value != int(value) or value < least:
        raise Refused(column, f"{text} is not a whole number from {least} on", "no number")
    return int(value)


def gpu_millis(column: str, text: str) -> int:
    value = number(column, text)
    millis = round(value * 1000)
    if millis <= 0 or value > MOST_GPUS:
        raise Refused(
            column, f"{text} GPUs; it must be more than 0 and at most {MOST_GPUS:,}", "GPUs"
        )
    return millis
