"""Estimates of starts: how wide they are, what of them is news, and how they are scored."""

import pytest

from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.projection.estimate import (
    Announced,
    Basis,
    Estimate,
    StartSpread,
    Tail,
    accuracy,
    by_queue,
    is_news,
)

MINUTE, HOUR = 60_000, 3_600_000


def told(
    job_id: str = "j",
    *,
    at: int = 0,
    foreseen: int = HOUR,
    p50: int = HOUR,
    p90: int = 2 * HOUR,
    started: int | None = None,
    queue: str = "default",
) -> Announced:
    return Announced(
        JobId(job_id), TenantId("default"), queue, at, at + foreseen, at + p50, at + p90, started
    )


def a_spread(count: int, foreseen: int, waited: int) -> StartSpread:
    spread = StartSpread()
    for number in range(count):
        spread.learn(told(f"j{number}", foreseen=foreseen, started=waited))
    return spread


def test_who_starts_at_once_is_told_now() -> None:
    assert a_spread(30, HOUR, 2 * HOUR).window(1000, 1000) == (1000, 1000)


def test_without_experience_the_window_goes_to_three_times_the_wait() -> None:
    assert StartSpread().window(0, HOUR) == (HOUR, 3 * HOUR + MINUTE)


def test_a_few_that_were_late_change_nothing_yet() -> None:
    assert a_spread(19, HOUR, 9 * HOUR).window(0, HOUR) == StartSpread().window(0, HOUR)


def test_where_all_went_as_foreseen_the_window_begins_there_and_is_as_narrow_as_it_gets() -> None:
    # An hour is usual here: nine quarters of two hours, less one.
    assert a_spread(20, HOUR, HOUR).window(0, HOUR) == (HOUR, 9 * HOUR // 2 - HOUR)


def test_where_waits_are_short_windows_are() -> None:
    assert a_spread(20, 20_000, 20_000).window(0, 20_000) == (20_000, 70_000)


def test_where_all_came_late_by_as_much_the_window_moves() -> None:
    p50, p90 = a_spread(40, HOUR, 2 * HOUR).window(0, HOUR)
    assert abs(p50 - 2 * HOUR) < MINUTE
    assert p90 > p50


def test_the_slowest_of_twenty_make_the_window_wide() -> None:
    spread = a_spread(18, HOUR, HOUR)
    for name in ("late", "later"):
        spread.learn(told(name, foreseen=HOUR, started=9 * HOUR))
    p50, p90 = spread.window(0, HOUR)
    assert p50 == HOUR
    assert p90 > 8 * HOUR


def test_what_was_long_ago_is_forgotten() -> None:
    spread = a_spread(300, HOUR, 9 * HOUR)
    for number in range(300):
        spread.learn(told(f"new{number}", foreseen=HOUR, started=HOUR))
    assert len(spread) == 300
    assert spread.window(0, HOUR) == a_spread(20, HOUR, HOUR).window(0, HOUR)


def test_one_that_has_not_started_teaches_nothing() -> None:
    spread = StartSpread()
    spread.learn(told())
    assert len(spread) == 0


def test_who_is_behind_what_was_played_is_told_by_how_quickly_others_start() -> None:
    # 100 started within an hour, and 200 are behind them: two more hours.
    found = Tail(0, HOUR, 100, 200).estimate(StartSpread())
    assert found.basis is Basis.THROUGHPUT
    assert found.p50_at == 2 * HOUR
    assert found.p90_at > 3 * HOUR


@pytest.mark.parametrize(
    ("before", "after", "news"),
    [
        (None, (HOUR, 2 * HOUR), True),
        ((HOUR, 2 * HOUR), (HOUR, 2 * HOUR), False),
        ((HOUR, 2 * HOUR), (HOUR + 10 * MINUTE, 2 * HOUR), False),
        ((HOUR, 2 * HOUR), (HOUR + 30 * MINUTE, 2 * HOUR), True),
        ((HOUR, 2 * HOUR), (HOUR // 2, 2 * HOUR), True),
        ((HOUR, 2 * HOUR), (HOUR, 9 * HOUR), True),
        ((2000, 3000), (30_000, 40_000), False),
    ],
    ids=["first", "same", "a little later", "later", "sooner", "wider", "less than a minute"],
)
def test_only_what_changes_much_is_news(
    before: tuple[int, int] | None, after: tuple[int, int], news: bool
) -> None:
    old = None if before is None else Estimate(*before, 0, Basis.SIMULATED)
    assert is_news(old, Estimate(*after, 0, Basis.SIMULATED)) is news


def test_an_estimate_that_only_comes_nearer_is_no_news() -> None:
    old = Estimate(HOUR, 2 * HOUR, 0, Basis.SIMULATED)
    assert not is_news(old, Estimate(HOUR, 2 * HOUR, 59 * MINUTE, Basis.SIMULATED))


def test_accuracy_counts_those_that_started() -> None:
    found = accuracy(
        [
            told("a", started=HOUR),
            told("b", started=HOUR + 1),
            told("c", started=3 * HOUR),
            told("d"),
        ]
    )
    assert (found.jobs, found.before_p50, found.before_p90) == (3, 1, 2)
    assert found.median_error_ms == 1
    assert found.median_wait_ms == HOUR + 1
    assert found.median_window_ms == 2 * HOUR


def test_accuracy_of_nothing_is_no_division_by_zero() -> None:
    assert accuracy([]).jobs == 0


def test_accuracy_by_queue_is_in_the_order_of_their_names() -> None:
    some = [told("a", started=1, queue="night"), told("b", started=1), told("c", started=1)]
    assert [(queue, found.jobs) for _, queue, found in by_queue(some)] == [
        ("default", 2),
        ("night", 1),
    ]
