from datetime import UTC, datetime

import pytest

from tgpu.text.past_instants import parse_past

NOW = round(datetime(2026, 11, 16, 12, 0, tzinfo=UTC).timestamp() * 1000)  # a Monday
DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", NOW),
        ("7d", NOW - 7 * DAY),
        ("1h30m", NOW - 5_400_000),
        ("11:30", NOW - 1_800_000),
        ("13:00", NOW + 3_600_000 - DAY),
        ("yesterday 14:00", NOW + 7_200_000 - DAY),
        ("today", NOW - DAY // 2),
        ("tue 9:30", NOW - 6 * DAY - 9_000_000),
        ("Monday", NOW - DAY // 2),
        ("mon 13:00:00.250", NOW + 3_600_250 - 7 * DAY),
        ("2026-11-10 12:00", NOW - 6 * DAY),
        ("2026-11-10", NOW - 6 * DAY - DAY // 2),
        ("2026-11-10T12:00:00+02:00", NOW - 6 * DAY - 7_200_000),
        ("1500ms", 1500),
    ],
)
def test_moments_of_the_past_are_read_as_people_write_them(text, at):
    assert parse_past(text, NOW, UTC) == at


@pytest.mark.parametrize("text", ["", "soon", "25:00", "tue 9", "7", "yesterday noon"])
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(ValueError, match=r"is no|has no unit|mixes"):
        parse_past(text, NOW, UTC)
