"""Spans of time as people write and read them: 2h30m, 45s. A bare number is never one."""

import re
from typing import Final

_SECONDS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([dhms])")
_WHOLE: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?[dhms])+")
_LONGEST_SECONDS: Final = 10 * 365 * 86_400


def parse_duration(text: str) -> float:
    """Seconds; ValueError says what to write instead."""
    compact = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", compact):
        raise ValueError(
            f"{text!r} has no unit: write {compact}s, {compact}m or {compact}h "
            "for seconds, minutes or hours"
        )
    if not _WHOLE.fullmatch(compact):
        raise ValueError(f"{text!r} is no span of time: write one like 30s, 45m, 2h30m or 1d")
    parts = _PART.findall(compact)
    units = [unit for _, unit in parts]
    if sorted(set(units), key="dhms".index) != units:
        raise ValueError(f"{text!r} mixes its units: write the largest first, each once, as 2h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise ValueError(f"{text!r} must be more than nothing and at most 10 years")
    return seconds


def roughly_text(seconds: float) -> str:
    """The largest unit alone: 45s, 3m, 2h, 4d."""
    left = max(0, int(seconds))
    unit = next((unit for unit, size in _SECONDS.items() if left >= size), "s")
    return f"{left // _SECONDS[unit]}{unit}"


def duration_text(seconds: float) -> str:
    """The two largest units: 45s, 3m20s, 2h05m, 4d06h."""
    left = max(0, int(seconds))
    if left < 60:
        return f"{left}s"
    for unit, below in (("d", "h"), ("h", "m"), ("m", "s")):
        if left >= _SECONDS[unit]:
            count, rest = divmod(left, _SECONDS[unit])
            return f"{count}{unit}{rest // _SECONDS[below]:02}{below}"
    raise AssertionError("a minute or more has a unit")
