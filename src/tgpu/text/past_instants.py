"""Moments that are over, as people write them: 7d (ago), yesterday 14:00, tue 9:30."""

import re
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from tgpu.text.durations import parse_duration
from tgpu.text.instants import day_time, local_time, millis_of

_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,3}))?)?")
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WRITE: Final = 'write one like 7d (ago), "yesterday 14:00", "tue 9:30" or "2026-11-10 14:00"'


def parse_past(text: str, now: int, zone: tzinfo | None = None) -> int:
    """Milliseconds since 1970 of a moment that is over; ValueError says what to write.

    A clock time alone is the last one, a weekday the last one too. `1500ms` is an instant as the
    journal writes it.
    """
    words = text.strip().lower()
    if found := re.fullmatch(r"([0-9]{1,15})ms", words):
        return int(found[1])
    if words == "now":
        return now
    if re.fullmatch(r"[0-9][0-9.dhms ]*", words) and not _CLOCK.fullmatch(words):
        return now - round(parse_duration(words.removesuffix("ago")) * 1000)
    at = _of_day(text, words, now, zone)
    if at is not None:
        return at
    try:
        return millis_of(datetime.fromisoformat(text.strip().upper()), zone)
    except ValueError:
        raise ValueError(f"{text!r} is not a moment: {_WRITE}") from None


def _of_day(text: str, words: str, now: int, zone: tzinfo | None) -> int | None:
    """A time of a day that is named, or of the last day that has it; None: it is neither."""
    today = local_time(now, zone).date()

    def at(days_ago: int, clock: str) -> int:
        return _at(text, today - timedelta(days=days_ago), clock, zone)

    if _CLOCK.fullmatch(words):
        return at(0, words) if at(0, words) <= now else at(1, words)
    day, _, clock = words.partition(" ")
    clock = clock.strip() or "0:00"
    if day in ("today", "yesterday"):
        return at(int(day == "yesterday"), clock)
    if day[:3] in _WEEKDAYS:
        back = (today.weekday() - _WEEKDAYS.index(day[:3])) % 7
        return at(back, clock) if at(back, clock) <= now else at(back + 7, clock)
    return None


def _at(text: str, day: date, clock: str, zone: tzinfo | None) -> int:
    found = _CLOCK.fullmatch(clock)
    if found is None:
        raise ValueError(f"{text!r} is not a moment: {_WRITE}")
    millis = int((found[4] or "0").ljust(3, "0"))
    return millis_of(datetime.combine(day, day_time(text, found)), zone) + millis
