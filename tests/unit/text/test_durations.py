import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.text.durations import (
    duration_text,
    exact_text,
    parse_duration,
    roughly_text,
    rounded_text,
    tenths_text,
    whole_text,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("45m", 2700), ("2h30m", 9000), ("1d", 86_400), ("1.5h", 5400), ("2H 5M", 7500)],
)
def test_a_span_is_read_in_the_units_it_names(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["30", "2.5"])
def test_a_bare_number_is_refused_and_told_what_to_write(text):
    with pytest.raises(ValueError, match=f"write {text}s, {text}m or {text}h"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "h", "-5m", "2x", "1h2", "soon", "5 minutes", "٣s"])
def test_what_is_no_span_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="30s, 45m, 2h30m"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["30m2h", "1h1h"])
def test_units_must_fall_and_come_once(text):
    with pytest.raises(ValueError, match="largest first"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "0h0m", "4000d"])
def test_nothing_and_more_than_ten_years_are_refused(text):
    with pytest.raises(ValueError, match="at most 10 years"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (-3, "0s"), (59.9, "59s"), (60, "1m00s"), (7_500, "2h05m"), (367_200, "4d06h")],
)
def test_a_span_is_shown_in_its_two_largest_units(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (61, "1m"), (7_500, "2h"), (90_000, "1d")]
)
def test_a_rough_span_is_shown_in_its_largest_unit(seconds, text):
    assert roughly_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (3_905, "65m05s"), (59, "59s"), (86_400, "1440m00s")]
)
def test_a_unit_may_be_the_largest_one(seconds, text):
    assert duration_text(seconds, largest="m") == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(7, "7s"), (65, "1m5s"), (7_500, "2h5m"), (90_000, "1d1h")]
)
def test_the_smaller_unit_may_go_without_zeros(seconds, text):
    assert duration_text(seconds, padded=False) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (9_000, "2h30m"), (61.5, "1m1.5s"), (3_661.1, "1h1m1.1s"), (86_461, "1d1m1s")],
)
def test_an_exact_text_leaves_nothing_out(seconds, text):
    assert exact_text(seconds) == text


@given(st.integers(1, 10 * 365 * 86_400_000), st.sampled_from("dhms"))
def test_an_exact_text_is_read_as_what_it_was_written_from(ms, largest):
    assert parse_duration(exact_text(ms / 1000, largest=largest)) == pytest.approx(ms / 1000)


@pytest.mark.parametrize(
    ("seconds", "text"), [(45, "45 s"), (60, "1 min"), (90, "90 s"), (5_400, "90 min")]
)
def test_minutes_are_said_where_they_are_whole(seconds, text):
    assert whole_text(seconds) == text


def test_tables_have_one_number_and_its_unit():
    found = [rounded_text(seconds) for seconds in (0, 0.25, 59, 600, 9_000, 864_000)]
    assert found == ["0 s", "250 ms", "59 s", "10 min", "2.5 h", "10.0 d"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.0s"), (4.46, "4.5s"), (59.9, "59.9s"), (60, "1m00s")]
)
def test_less_than_a_minute_may_be_said_to_the_tenth(seconds, text):
    assert tenths_text(seconds) == text
