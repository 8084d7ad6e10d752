"""When jobs start, in words."""

from datetime import datetime

import pytest

from tests.unit.cli.builders import NOW_MS
from tgpu.cli.render.estimate import start_text, starts_in, when_lines
from tgpu.wire.estimates_v1 import EstimateAnswer, EstimateModel, SoonerModel

NOW = "2023-11-14T22:13:20Z"


def an_estimate(p50: str, p90: str, basis: str = "simulated") -> EstimateModel:
    return EstimateModel(p50=p50, p90=p90, as_of=NOW, basis=basis)


def in_seconds(p50: int, p90: int, basis: str = "simulated") -> EstimateModel:
    now = NOW_MS // 1000
    return an_estimate(f"{now + p50}s", f"{now + p90}s", basis)


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (None, ""),
        (in_seconds(0, 0, "next_cycle"), "now"),
        (in_seconds(-60, 2), "<5s"),
        (in_seconds(1, 300), "<5m"),
        (in_seconds(720, 2400), "12m-40m"),
        (in_seconds(5700, 6000), "1h35m-1h40m"),
        (in_seconds(720, 730), "12m"),
        (in_seconds(14 * 3600, 3 * 86_400), "14h-3d"),
        (in_seconds(7200, 9000, "throughput"), ">2h00m"),
        (in_seconds(0, 300, "throughput"), "<5m"),
    ],
)
def test_a_table_has_a_few_characters_for_it(estimate: EstimateModel | None, text: str) -> None:
    assert starts_in(estimate, NOW_MS) == text


def local(text: str, shape: str) -> str:
    return datetime.fromisoformat(text).astimezone().strftime(shape)


def test_a_page_has_the_clock_on_the_wall_too() -> None:
    p50, p90 = "2023-11-14T22:14:20Z", "2023-11-14T22:15:20Z"
    clock = f"({local(p50, '%H:%M')} to {local(p90, '%H:%M')})"
    assert start_text(an_estimate(p50, p90), NOW_MS) == (
        f"in about 1m00s, 90% likely within 2m00s {clock}"
    )


def test_another_day_is_named_with_its_date() -> None:
    p50, p90 = "2023-11-14T22:13:30Z", "2023-11-16T22:13:20Z"
    clock = f"({local(p50, '%H:%M')} to {local(p90, '%Y-%m-%d %H:%M')})"
    assert start_text(an_estimate(p50, p90, "guessed"), NOW_MS) == (
        f"in about 10s, 90% likely within 2d00h {clock}; some jobs ahead have no runtime estimate"
    )


def test_beyond_calendars_there_is_no_clock() -> None:
    assert start_text(in_seconds(60, 120), NOW_MS) == ("in about 1m00s, 90% likely within 2m00s")


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({"level": "exact", "samples": 19}, "from 19 runs of the same command"),
        ({"level": "limit"}, "from time limits alone"),
        ({"level": "user", "samples": 1}, "from 1 run of other jobs of the same user"),
        ({"level": "nothing"}, "some jobs ahead have no runtime estimate"),
    ],
)
def test_an_estimate_says_how_much_it_knows(fields: dict[str, object], known: str) -> None:
    estimate = in_seconds(60, 120).model_copy(update=fields)
    assert start_text(estimate, NOW_MS) == (f"in about 1m00s, 90% likely within 2m00s; {known}")


def test_what_was_promised_is_told_in_the_same_sentence() -> None:
    estimate = in_seconds(60, 2580).model_copy(update={"level": "limit"})
    promised = estimate.model_copy(update={"latest": estimate.p90})
    assert start_text(promised, NOW_MS) == (
        "in about 1m00s, at the latest in 43m00s; from time limits alone"
    )
    later = estimate.model_copy(update={"latest": in_seconds(0, 3600).p90})
    assert start_text(later, NOW_MS) == (
        "in about 1m00s, 90% likely within 43m00s, at the latest in 1h00m; from time limits alone"
    )


def an_answer(**fields: object) -> EstimateAnswer:
    plain = {"jobs": 1, "starts_now": False, "held": False, "estimate": None, "last": None}
    return EstimateAnswer.model_validate(plain | {"sooner": []} | fields)


def said(answer: EstimateAnswer) -> list[str]:
    return ["".join(cell.text for cell in line) for line in when_lines(answer)]


def test_what_nobody_can_tell_is_said_so() -> None:
    assert said(an_answer()) == ["no estimate of when it would start"]


def test_a_job_on_hold_waits_for_its_release() -> None:
    assert "on hold" in said(an_answer(held=True))[0]


def test_what_starts_now_needs_no_window() -> None:
    assert said(an_answer(starts_now=True, estimate=in_seconds(0, 0))) == ["it would start now"]


def test_changes_stand_below_with_what_they_bring() -> None:
    sooner = SoonerModel(
        sentence="on H100 it would start now",
        fields={"gpu_type": "H100"},
        starts_now=True,
        estimate=in_seconds(0, 0),
    )
    answer = an_answer(jobs=3, estimate=in_seconds(60, 120), last=in_seconds(90, 180))
    lines = said(answer.model_copy(update={"sooner": [sooner]}))
    assert lines[0].startswith("the first of 3 jobs would start in about 1m00s")
    assert lines[1].startswith("the last would start in about 1m30s")
    assert lines[2:] == ["sooner:", "  on H100 it would start now"]
