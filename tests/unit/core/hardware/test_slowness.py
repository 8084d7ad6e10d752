"""GPUs that throttle or lag behind their siblings are reported after a while."""

from dataclasses import replace

from tgpu.core.hardware.slowness import Lag, Pace, SlownessRules, reports, watch_pace

RULES = SlownessRules()


def paces(*clocks: int, busy: int = 90, gpu_type: str = "H100") -> list[Pace]:
    return [Pace(index, gpu_type, clock, busy) for index, clock in enumerate(clocks)]


def told(seen: list[Pace], minutes: int = 1) -> dict[int, str]:
    lags: dict[int, Lag] = {}
    for minute in range(minutes + 1):
        lags = watch_pace(lags, seen, minute * 60_000, RULES)
    return reports(lags, minutes * 60_000, RULES)


def test_one_that_is_much_slower_than_its_siblings_is_told() -> None:
    found = told(paces(1980, 1980, 1005, 1980))
    assert found == {2: "slower than its siblings: 1005 MHz, they run at 1980 MHz"}


def test_not_before_it_has_lagged_for_a_while() -> None:
    assert told(paces(1980, 1980, 1005, 1980), minutes=0) == {}


def test_a_moment_of_full_speed_begins_the_time_anew() -> None:
    slow, fast = paces(1980, 1980, 1005), paces(1980, 1980, 1980)
    lags = watch_pace(watch_pace({}, slow, 0, RULES), fast, 30_000, RULES)
    assert reports(watch_pace(lags, slow, 60_000, RULES), 60_000, RULES) == {}


def test_small_differences_idle_gpus_and_other_types_do_not_count() -> None:
    assert told(paces(1980, 1980, 1800, 1980)) == {}
    idle = [*paces(1980, 1980, 1980), Pace(3, "H100", 345, 0)]
    assert told(idle) == {}
    mixed = [*paces(1980, 1980, 1980), Pace(3, "T4", 1005, 90)]
    assert told(mixed) == {}


def test_of_two_nobody_can_say_which_is_odd() -> None:
    assert told(paces(1980, 1005)) == {}


def test_one_that_overheats_is_told_and_one_at_its_power_cap_is_not() -> None:
    one, *others = paces(1980, 1980, 1980)
    assert told([replace(one, throttle=("overheated",)), *others]) == {0: "throttled: overheated"}
    assert told([replace(one, throttle=("power cap",)), *others]) == {}
