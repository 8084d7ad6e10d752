import pytest

from tgpu.durations import duration_text, parse_duration, roughly_text


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
