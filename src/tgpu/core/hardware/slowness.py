"""Slow GPUs: throttled, or slower than others of their type. Reported only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Reasons of a driver to slow a GPU down that somebody should look into. A power cap is not among
# them: data-centre GPUs at full load live at theirs.
HARMFUL_THROTTLES: Final = ("hardware slowdown", "overheated", "power brake")


@dataclass(frozen=True, slots=True)
class Pace:
    """One GPU at one moment."""

    index: int
    gpu_type: str
    sm_clock_mhz: int | None
    busy_percent: int | None
    throttle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SlownessRules:
    window_ms: int = 60_000  # a GPU must lag for this long
    least_percent: int = 85  # of its siblings' median clock
    busy_percent: int = 50  # idle GPUs lower their clocks, which means nothing
    least_siblings: int = 3  # of two nobody can tell which one is odd


@dataclass(frozen=True, slots=True)
class Lag:
    """Since when a GPU has been slow or throttled, and how it was last put."""

    since: int
    sentence: str


def watch_pace(
    before: Mapping[int, Lag], paces: Sequence[Pace], now: int, rules: SlownessRules
) -> dict[int, Lag]:
    """The GPUs that lag at this moment, by index, each since when."""
    found: dict[int, Lag] = {}
    for pace in paces:
        sentence = _throttled(pace) or _lags(pace, paces, rules)
        if sentence is not None:
            known = before.get(pace.index)
            found[pace.index] = Lag(now if known is None else known.since, sentence)
    return found


def reports(lags: Mapping[int, Lag], now: int, rules: SlownessRules) -> dict[int, str]:
    """What to tell of those that have lagged for a whole window."""
    return {
        index: lag.sentence
        for index, lag in sorted(lags.items())
        if now - lag.since >= rules.window_ms
    }


def _throttled(pace: Pace) -> str | None:
    harmful = [reason for reason in pace.throttle if reason in HARMFUL_THROTTLES]
    return f"throttled: {', '.join(harmful)}" if harmful else None


def _lags(pace: Pace, paces: Sequence[Pace], rules: SlownessRules) -> str | None:
    loaded = [
        other.sm_clock_mhz
        for other in paces
        if other.gpu_type == pace.gpu_type
        and other.sm_clock_mhz is not None
        and (other.busy_percent or 0) >= rules.busy_percent
    ]
    clock = pace.sm_clock_mhz
    if clock is None or (pace.busy_percent or 0) < rules.busy_percent:
        return None
    if len(loaded) < rules.least_siblings:
        return None
    median = sorted(loaded)[len(loaded) // 2]
    if clock * 100 >= median * rules.least_percent:
        return None
    return f"slower than its siblings: {clock} MHz, they run at {median} MHz"
