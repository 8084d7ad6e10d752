"""Durations as users write and read them: 2h30m, 45s. A bare number is never one."""

import re
from itertools import pairwise
from typing import Final

_SECONDS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}  # the largest first
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
        raise ValueError(f"{text!r} is not a span of time: write one like 30s, 45m, 2h30m or 1d")
    parts = _PART.findall(compact)
    units = [unit for _, unit in parts]
    if sorted(set(units), key="dhms".index) != units:
        raise ValueError(f"{text!r} mixes its units: write the largest first, each once, as 2h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise ValueError(f"{text!r} must be more than 0 and at most 10 years")
    return seconds


def roughly_text(seconds: float) -> str:
    """The largest unit alone: 45s, 3m, 2h, 4d."""
    left = max(0, int(seconds))
    unit = next((unit for unit, size in _SECONDS.items() if left >= size), "s")
    return f"{left // _SECONDS[unit]}{unit}"


def duration_text(seconds: float, *, largest: str = "d", padded: bool = True) -> str:
    """The two largest units: 45s, 3m20s, 2h05m, 4d06h; not `padded`, 2h5m."""
    left = max(0, int(seconds))
    for unit, below in pairwise(_units(largest)):
        if left >= _SECONDS[unit]:
            count, rest = divmod(left, _SECONDS[unit])
            small = rest // _SECONDS[below]
            return f"{count}{unit}{small:0{2 if padded else 1}}{below}"
    return f"{left}s"


def tenths_text(seconds: float) -> str:
    """Below a minute to a tenth of a second: 4.5s, 3m20s."""
    return f"{seconds:.1f}s" if seconds < _SECONDS["m"] else duration_text(seconds)


def exact_text(seconds: float, *, largest: str = "d") -> str:
    """To the millisecond, as parse_duration reads it: 2h30m, 1m1.5s."""
    left, text = round(seconds * 1000), ""
    for unit in _units(largest)[:-1]:
        count, left = divmod(left, _SECONDS[unit] * 1000)
        text += f"{count}{unit}" if count else ""
    if text and not left:
        return text
    return text + f"{left / 1000:.3f}".rstrip("0").rstrip(".") + "s"


def whole_text(seconds: float) -> str:
    """90 min, or 45 s where minutes would be no whole number."""
    return f"{int(seconds)} s" if seconds % 60 else f"{int(seconds) // 60} min"


def rounded_text(seconds: float) -> str:
    """One number and its unit, for tables: 12 s, 3 min, 2.5 h, 4.1 d."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:,.1f} d"


def _units(largest: str) -> list[str]:
    units = list(_SECONDS)
    return units[units.index(largest) :]
