"""The idle ladder: one window for each rung, and down at once."""

from hypothesis import given
from hypothesis import strategies as st

from tgpu.core.hardware.idle import IdleRules, IdleWatch, Rung, climb

MINUTE = 60_000
RULES = IdleRules(percent=5, window_ms=30 * MINUTE)


def after(*spans: tuple[int, int | None], rules: IdleRules = RULES) -> IdleWatch:
    """The watch after so many minutes of so much load, one reading a minute."""
    watch, now = IdleWatch(0), 0
    for minutes, percent in spans:
        for _ in range(minutes):
            now += MINUTE
            watch = climb(watch, percent, now, rules)
    return watch


def test_a_busy_job_is_left_alone() -> None:
    assert after((300, 80)).rung is Rung.BUSY


def test_each_window_of_idleness_is_one_rung() -> None:
    assert after((29, 0)).rung is Rung.BUSY
    assert after((30, 0)).rung is Rung.NOTICED
    assert after((59, 0)).rung is Rung.NOTICED
    assert after((60, 0)).rung is Rung.WARNED
    assert after((90, 0)).rung is Rung.DUE
    assert after((900, 0)).rung is Rung.DUE


def test_work_takes_it_down_at_once() -> None:
    assert after((60, 0), (3, 100)).rung is Rung.BUSY


def test_a_blip_that_the_average_does_not_notice_changes_nothing() -> None:
    assert after((29, 0), (1, 100), (30, 0)).rung is after((60, 0)).rung


def test_a_driver_that_tells_nothing_is_not_idleness() -> None:
    assert after((300, None)).rung is Rung.BUSY


def test_a_window_of_zero_is_off() -> None:
    assert after((300, 0), rules=IdleRules(window_ms=0)).rung is Rung.BUSY


def test_a_long_window_is_kept_in_few_pieces() -> None:
    assert len(after((500, 0)).pieces) <= 60


@given(st.lists(st.integers(0, 100), min_size=1, max_size=200))
def test_no_job_is_due_before_three_windows(loads: list[int]) -> None:
    watch, now = IdleWatch(0), 0
    for load in loads:
        now += MINUTE
        watch = climb(watch, load, now, RULES)
        if watch.rung is Rung.DUE:
            assert now >= 3 * RULES.window_ms


@given(st.lists(st.integers(5, 100), min_size=1, max_size=200))
def test_a_job_that_is_never_idle_is_never_told(loads: list[int]) -> None:
    watch, now = IdleWatch(0), 0
    for load in loads:
        now += MINUTE
        watch = climb(watch, load, now, RULES)
        assert watch.rung is Rung.BUSY
