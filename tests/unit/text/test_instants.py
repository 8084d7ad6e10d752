"""Instants as people write them. In a zone of their own, whatever that of the machine is."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tgpu.text.instants import (
    calendar_text,
    instant_text,
    iso_millis,
    iso_text,
    parse_instant,
    span_text,
    zone_text,
)

ZONE = timezone(timedelta(hours=1), "CET")


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZONE).timestamp() * 1000)


NOW = ms("2026-11-16 12:30:00")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("14:00", "2026-11-16 14:00:00"),
        ("9:05", "2026-11-17 09:05:00"),
        ("12:30", "2026-11-17 12:30:00"),
        ("14:00:30", "2026-11-16 14:00:30"),
        ("today 9:00", "2026-11-16 09:00:00"),
        ("tomorrow 9:00", "2026-11-17 09:00:00"),
        ("Tomorrow  09:00", "2026-11-17 09:00:00"),
        ("2026-11-20 14:00", "2026-11-20 14:00:00"),
        ("2026-11-20T14:00:05", "2026-11-20 14:00:05"),
        ("2026-11-20T13:00:00Z", "2026-11-20 14:00:00"),
        ("2026-11-20T08:00:00-05:00", "2026-11-20 14:00:00"),
        ("+2h", "2026-11-16 14:30:00"),
        ("+1h30m", "2026-11-16 14:00:00"),
        ("now", "2026-11-16 12:30:00"),
    ],
)
def test_a_time_is_read_as_it_is_meant(text, meant):
    assert parse_instant(text, NOW, ZONE) == ms(meant)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("25:00", "write 00:00 to 23:59"),
        ("14", "is not a time: write one like 14:00"),
        ("tomorrow", "is not a time: write one like 14:00"),
        ("2026-11-20", "has no time of day: write 2026-11-20 09:00"),
        ("2026-13-20 10:00", "is not a time: write one like 14:00"),
        ("+2", "has no unit"),
        ("", "is not a time: write one like 14:00"),
    ],
)
def test_what_is_no_time_is_answered_with_what_to_write(text, complaint):
    with pytest.raises(ValueError, match=r".") as refused:
        parse_instant(text, NOW, ZONE)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("2026-11-16 14:00:00", "14:00"),
        ("2026-11-17 09:00:00", "tomorrow 09:00"),
        ("2026-11-20 09:00:30", "Fri 09:00:30"),
        ("2026-12-20 09:00:00", "2026-12-20 09:00"),
        ("2026-11-15 09:00:00", "2026-11-15 09:00"),
    ],
)
def test_a_time_is_shown_as_short_as_it_is_clear(at, text):
    assert instant_text(ms(at), NOW, ZONE) == text


def test_a_span_within_a_day_says_the_day_once():
    two, four = ms("2026-11-17 14:00"), ms("2026-11-17 16:00")
    assert span_text(two, four, NOW, ZONE) == "tomorrow 14:00 to 16:00"
    assert span_text(NOW, two, NOW, ZONE) == "12:30 to tomorrow 14:00"


def test_what_is_shown_can_be_read_again():
    for hours in range(0, 24 * 40, 7):
        at = NOW + hours * 3_600_000
        shown = instant_text(at, NOW, ZONE)
        if not shown[0].isalpha() or shown.startswith("tomorrow"):
            assert parse_instant(shown, NOW - 1, ZONE) == at


def test_the_zone_is_named_with_its_distance():
    assert zone_text(NOW, ZONE) == "CET (UTC+01:00)"
    assert zone_text(NOW, timezone(timedelta(hours=-5, minutes=-30))) == "UTC-05:30"


def test_without_a_zone_it_is_that_of_this_machine():
    shown = datetime.fromtimestamp(NOW / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    assert parse_instant(shown, 0) == NOW


def test_an_instant_is_written_for_programs_and_read_again():
    at = 1_763_411_718_250
    assert iso_text(at, "milliseconds") == "2025-11-17T20:35:18.250+00:00"
    assert iso_text(at - 250) == "2025-11-17T20:35:18+00:00"
    assert iso_millis(iso_text(at)) == at
    assert iso_millis("9007199254740s") == 9_007_199_254_740_000


def test_an_instant_is_written_for_readers_in_any_zone():
    at = 1_763_411_718_999
    assert calendar_text(at) == "2025-11-17 20:35:18"
    assert calendar_text(at, "minutes") == "2025-11-17 20:35"
