"""Where marks stand on an axis, and what they say."""

import pytest

from tgpu.drawing.axes import Axis, dates, days, linear, spans

DAY = 86_400.0
T0 = 1_762_000_000.0  # 1 November 2025, 12:26:40 UTC


def words(axis: Axis) -> list[str]:
    return [text for _, text in axis.marks]


def test_counts_have_no_mark_twice():
    assert words(linear(3, lambda n: f"{n:.0f}", whole=True)) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("most", [0.004, 0.5, 1, 3, 7, 60, 999, 123_456])
def test_marks_are_few_and_reach_over_the_axis(most):
    marks = linear(most, str).marks
    assert 2 <= len(marks) <= 7
    assert 0.5 * most <= marks[-1][0] <= most


def test_an_axis_of_nothing_has_no_marks():
    axis = linear(0, str)
    assert axis.marks == []
    assert axis.place(0) == 0


def test_lengths_of_time_have_marks_that_people_read():
    assert words(spans(2 * DAY)) == ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d"]


def test_lengths_of_time_below_a_second_stand_at_the_beginning():
    axis = spans(100.0)
    assert axis.place(0.0) == axis.place(1.0) == 0
    assert axis.place(100.0) == 1


def test_short_stretches_are_counted_in_hours_and_long_ones_in_days():
    assert words(days(5 * 3600))[:2] == ["hour 0", "hour 1"]
    assert words(days(20 * DAY))[1] == "day 5"


def test_dates_are_marked_at_midnight():
    axis = dates(T0, T0 + 7 * DAY)
    assert words(axis) == [f"{day} Nov" for day in range(2, 9)]
    assert all(at % DAY == 0 for at, _ in axis.marks)


def test_hours_of_a_day_are_marked_by_the_clock():
    assert words(dates(T0, T0 + DAY)) == [
        *("15:00", "18:00", "21:00", "2 Nov", "03:00", "06:00", "09:00", "12:00")
    ]


def test_seconds_are_marked_too():
    assert words(dates(T0, T0 + 10))[0] == "12:26:40"


def test_an_instant_is_no_stretch_and_breaks_nothing():
    assert dates(T0, T0).place(T0) == 0
