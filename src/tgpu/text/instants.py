"""Instants as people write and read them: 14:00, tomorrow 9:00, +2h. In the zone of this machine.

Milliseconds since 1970 are what the service is told: the zone stays at the terminal. Sentences of
the service have UTC in one form, which whoever shows them turns into the reader's own time.
"""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

from tgpu.text.durations import parse_duration

_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_DAYS: Final = {"today": 0, "tomorrow": 1}
_WRITE: Final = 'write one like 14:00, "tomorrow 9:00", "2026-11-20 14:00" or +2h'


def utc_text(at: int) -> str:
    """2026-11-16T20:35:18Z; beyond calendars, as on a manual clock, "second 9007199254740"."""
    try:
        moment = datetime.fromtimestamp(at // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"second {at // 1000}"
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def utc_millis_text(at: int) -> str:
    """2026-11-16T20:35:18.250Z, as the API writes it; beyond calendars "9007199254740s"."""
    try:
        moment = datetime.fromtimestamp(at / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{at // 1000}s"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_text(at: int, timespec: str = "auto") -> str:
    """2026-11-16T20:35:18+00:00, as ISO 8601 has it; for programs."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec=timespec)


def calendar_text(at: int, timespec: str = "seconds") -> str:
    """2026-11-16 20:35:18 in UTC; to the minute, 2026-11-16 20:35."""
    return datetime.fromtimestamp(at / 1000, UTC).replace(tzinfo=None).isoformat(" ", timespec)


def iso_millis(iso: str) -> int:
    """Milliseconds since 1970 of an instant as the API writes it."""
    if iso.endswith("s"):  # beyond every calendar, as a manual clock may have it
        return int(iso.removesuffix("s")) * 1000
    return millis_of(datetime.fromisoformat(iso))


def zoned_millis(text: str) -> int:
    """Of ISO 8601 with its zone, as the API reads it: without one nobody knows when it is."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("no zone")
    # In UTC it may lie before the first year, or after the last.
    return round(moment.astimezone(UTC).timestamp() * 1000)


def parse_instant(text: str, now: int, zone: tzinfo | None = None) -> int:
    """Milliseconds since 1970 of what `text` means at `now`; ValueError says what to write.

    A clock time alone is the next one. What names no zone is meant in `zone`, by default that of
    this machine.
    """
    words = text.strip().lower()
    if words == "now":
        return now
    if words.startswith("+"):
        return now + round(parse_duration(words[1:]) * 1000)
    today = local_time(now, zone).date()
    if _CLOCK.fullmatch(words):
        at = _at(text, today, words, zone)
        return at if at > now else _at(text, today + timedelta(days=1), words, zone)
    day, _, clock = words.partition(" ")
    if day in _DAYS:
        return _at(text, today + timedelta(days=_DAYS[day]), clock.strip(), zone)
    return _of_date(text, zone)


def instant_text(at: int, now: int, zone: tzinfo | None = None) -> str:
    """As short as it is clear: 14:00 today, else tomorrow 09:00, Fri 14:00 or 2026-11-20 14:00."""
    then, today = local_time(at, zone), local_time(now, zone).date()
    clock = _clock_text(then)
    match (then.date() - today).days:
        case 0:
            return clock
        case 1:
            return f"tomorrow {clock}"
        case days if 1 < days < 7:
            return f"{then:%a} {clock}"
    return f"{then:%Y-%m-%d} {clock}"


def span_text(starts_at: int, ends_at: int, now: int, zone: tzinfo | None = None) -> str:
    """From when until when: the day is said once."""
    first, last = local_time(starts_at, zone), local_time(ends_at, zone)
    same_day = first.date() == last.date()
    end = _clock_text(last) if same_day else instant_text(ends_at, now, zone)
    return f"{instant_text(starts_at, now, zone)} to {end}"


def zone_text(at: int, zone: tzinfo | None = None) -> str:
    """The zone in which times are read and shown then, as CET (UTC+01:00)."""
    local = local_time(at, zone)
    offset = f"{local:%z}"
    shift = f"UTC{offset[:3]}:{offset[3:5]}"
    name = local.tzname() or ""
    return f"{name} ({shift})" if name.isalpha() and name != "UTC" else name or shift


# As the service writes instants in sentences, and as versions before this one did.
_IN_SENTENCES: Final = re.compile(
    r"(?<![\w:.-])(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z| UTC|\+00:00)(?![\w-])"
)


def in_local_time(sentence: str) -> str:
    """What the service says, with its instants in the reader's time zone: it writes UTC. Not for
    what people wrote: a job may be named after an instant."""
    return _IN_SENTENCES.sub(_as_local, sentence)


def _as_local(found: re.Match[str]) -> str:
    try:
        return local_text(f"{found[1]}T{found[2]}+00:00")
    except (ValueError, OverflowError):
        return found[0]  # a calendar has no such day


def local_text(iso: str) -> str:
    """An instant as the API writes it, in the reader's time zone. Empty, and what is beyond
    calendars, stay as they are."""
    if not iso or iso.endswith("s"):
        return iso
    return f"{datetime.fromisoformat(iso).astimezone():%Y-%m-%d %H:%M:%S}"


def _of_date(text: str, zone: tzinfo | None) -> int:
    """A date with a time, and perhaps with a zone."""
    try:
        found = datetime.fromisoformat(text.strip().upper())
    except ValueError:
        raise ValueError(f"{text!r} is not a time: {_WRITE}") from None
    if not re.search(r"[0-9][T ][0-9]", text.strip().upper()):
        raise ValueError(f"{text!r} has no time of day: write {text.strip()} 09:00")
    return millis_of(found, zone)


def _at(text: str, day: date, clock: str, zone: tzinfo | None) -> int:
    found = _CLOCK.fullmatch(clock)
    if found is None:
        raise ValueError(f"{text!r} is not a time: {_WRITE}")
    return millis_of(datetime.combine(day, day_time(text, found)), zone)


def day_time(text: str, found: re.Match[str]) -> time:
    """Of hours, minutes and perhaps seconds that were found in `text`, which ValueError names."""
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} is not a time of day: write 00:00 to 23:59")
    return time(hour, minute, second)


def local_time(at: int, zone: tzinfo | None = None) -> datetime:
    return datetime.fromtimestamp(at / 1000, zone).astimezone(zone)


def millis_of(stated: datetime, zone: tzinfo | None = None) -> int:
    """What names no zone is meant in `zone`, by default that of this machine."""
    if stated.tzinfo is None and zone is not None:
        stated = stated.replace(tzinfo=zone)
    return round(stated.timestamp() * 1000)


def _clock_text(then: datetime) -> str:
    return f"{then:%H:%M:%S}" if then.second else f"{then:%H:%M}"
