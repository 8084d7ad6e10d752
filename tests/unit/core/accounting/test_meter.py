"""GPU time of late: exact, the same in any number of steps, and half after a half-life."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.core.accounting.meter import (
    ONE,
    SCALE,
    Meter,
    Meters,
    advanced,
    changed,
    decay,
    gpu_millis_ms,
    look_ahead,
)
from tgpu.core.model.ids import TenantId

HOUR = 3_600_000
WEEK = 168 * HOUR
RED = TenantId("red")


@given(elapsed=st.integers(0, 100 * WEEK), half_life=st.integers(1, 10 * 365 * 24 * HOUR))
def test_decay_is_two_to_the_minus_time_over_half_life(elapsed: int, half_life: int) -> None:
    assert decay(elapsed, half_life) / ONE == pytest.approx(
        2 ** (-elapsed / half_life), rel=1e-9, abs=1e-12
    )


@given(elapsed=st.integers(0, 10 * WEEK), more=st.integers(0, WEEK))
def test_decay_never_grows(elapsed: int, more: int) -> None:
    assert decay(elapsed + more, WEEK) <= decay(elapsed, WEEK) <= ONE


def test_the_tables_are_the_same_on_every_machine() -> None:
    # 2 ** (62 - step / 2 ** 40) to the last place, worked out with sixty digits.
    parts = [decay(step, 1 << 40) for step in (1, 1 << 10, 1 << 20, 1 << 30, (1 << 40) - 1)]
    assert parts == [
        4611686018424480634,
        4611686015450343433,
        4611682969934856343,
        4608565417332308034,
        2305843009215147586,
    ]


def test_a_constant_holding_is_approached_by_half_in_each_half_life() -> None:
    meter = Meter(0, 8000, 0)
    assert advanced(meter, WEEK, WEEK).average == 4000 * SCALE
    assert advanced(meter, 2 * WEEK, WEEK).average == 6000 * SCALE


def test_what_was_held_before_fades_by_half_in_each_half_life() -> None:
    assert advanced(Meter(8000 * SCALE, 0, 0), 3 * WEEK, WEEK).average == 1000 * SCALE


@given(
    rate=st.integers(0, 100_000),
    steps=st.lists(st.integers(1, WEEK), min_size=1, max_size=30),
)
def test_many_small_steps_come_to_what_one_large_step_does(rate: int, steps: list[int]) -> None:
    meter = start = Meter(3000 * SCALE, rate, 0)
    for step in steps:
        meter = advanced(meter, meter.at + step, WEEK)
    once = advanced(start, sum(steps), WEEK)
    assert meter.average == pytest.approx(once.average, rel=1e-8, abs=SCALE // 1000)


def test_a_clock_that_was_set_back_changes_nothing() -> None:
    meter = Meter(5, 1000, 10_000)
    assert advanced(meter, 9000, WEEK) == meter
    assert changed(meter, -1000, 9000, WEEK) == Meter(5, 0, 10_000)


def test_without_a_half_life_only_what_is_held_counts() -> None:
    assert advanced(Meter(9 * SCALE, 2000, 0), 1, 0).average == 2000 * SCALE
    assert look_ahead(0) == SCALE


def test_gpu_time_of_a_short_while_is_what_was_held_times_the_while() -> None:
    average = advanced(Meter(0, 4000, 0), HOUR, 10 * 365 * 24 * HOUR).average
    assert gpu_millis_ms(average, 10 * 365 * 24 * HOUR) == pytest.approx(4000 * HOUR, rel=1e-4)


def test_the_look_ahead_is_an_hour_of_gpu_time() -> None:
    assert gpu_millis_ms(look_ahead(WEEK), WEEK) == pytest.approx(HOUR, rel=1e-6)


def test_the_look_ahead_of_a_short_half_life_is_an_eighth_of_it() -> None:
    assert gpu_millis_ms(look_ahead(HOUR), HOUR) == pytest.approx(HOUR / 8, rel=1e-5)


def test_a_tenant_s_meter_counts_all_its_users() -> None:
    meters = Meters(WEEK)
    meters.change(RED, "ann", 1000, 0)
    meters.change(RED, "bob", 3000, 0)
    meters.change(RED, "ann", -1000, WEEK)
    assert meters.average((RED, None), WEEK) == 2000 * SCALE
    assert meters.average((RED, "ann"), 2 * WEEK) == 250 * SCALE
    assert meters.average((RED, "cem"), WEEK) == 0
    assert meters.users() == {RED: ["ann", "bob"]}
