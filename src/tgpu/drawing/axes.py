"""Axes: from a value to a place, and where to put which mark."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import log10
from typing import Final, NamedTuple

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
# Marks that people read at a glance; decades of seconds would be 17 min and 27.8 h.
_SPANS: Final = (
    (1.0, "1 s"),
    (10.0, "10 s"),
    (_MINUTE, "1 min"),
    (10 * _MINUTE, "10 min"),
    (_HOUR, "1 h"),
    (6 * _HOUR, "6 h"),
    (_DAY, "1 d"),
    (7 * _DAY, "7 d"),
    (30 * _DAY, "30 d"),
    (365 * _DAY, "1 y"),
)
_STEPS: Final = (
    *(1.0, 5.0, 15.0, 30.0),
    *(n * _MINUTE for n in (1, 5, 15, 30)),
    *(n * _HOUR for n in (1, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 90, 365)),
)
_MOST_MARKS: Final = 8


class Axis(NamedTuple):
    place: Callable[[float], float]  # 0 to 1
    marks: Sequence[tuple[float, str]]


def linear(most: float, text: Callable[[float], str], *, whole: bool = False) -> Axis:
    """From 0; `whole` where there is nothing between 1 and 2."""
    step = _nice_step(most)
    step = max(1.0, step) if whole else step
    marks = [(step * n, text(step * n)) for n in range(int(most / step) + 1)] if step else []
    return Axis(lambda value: value / most if most else 0.0, marks)


def spans(most: float) -> Axis:
    """Lengths of time from a second on, logarithmic."""
    high = log10(max(most, 10.0))
    marks = [(seconds, text) for seconds, text in _SPANS if seconds <= max(most, 10.0)]
    return Axis(lambda seconds: log10(max(seconds, 1.0)) / high, marks)


def days(most_seconds: float) -> Axis:
    """Time since some beginning that has no date."""
    whole = most_seconds >= _MOST_MARKS * _DAY / 4
    unit, name = (_DAY, "day") if whole else (_HOUR, "hour")
    scaled = linear(most_seconds / unit, lambda n: f"{name} {n:g}")
    marks = [(n * unit, text) for n, text in scaled.marks]
    return Axis(lambda at: scaled.place(at / unit), marks)


def dates(since: float, until: float) -> Axis:
    """Instants between two, in seconds since 1970; marks in UTC."""
    length = max(until - since, 1.0)
    step = next((each for each in _STEPS if length / each <= _MOST_MARKS), _STEPS[-1])
    first = -(-since // step) * step
    count = int((until - first) // step) + 1 if until >= first else 0
    marks = [(first + n * step, _instant(first + n * step, step)) for n in range(count)]
    return Axis(lambda at: (at - since) / length, marks)


def _instant(at: float, step: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    if step >= _DAY:
        return f"{moment.day} {moment:%b}" + (f" {moment.year}" if step >= 90 * _DAY else "")
    text = f"{moment:%H:%M:%S}" if step < _MINUTE else f"{moment:%H:%M}"
    return (
        f"{moment.day} {moment:%b}" if moment.hour == moment.minute == moment.second == 0 else text
    )


def _nice_step(most: float) -> float:
    if most <= 0:
        return 0.0
    power = 10.0 ** int(log10(most) - (1 if most < 1 else 0))
    return next(
        (power * n for n in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if most / (power * n) <= 6), power * 10
    )
