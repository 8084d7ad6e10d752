"""Start estimates: their value, the width of their window, and their accuracy.

A window is made of the instant that playing the queue forward gave, and of what became of those
told before: they say by how much such instants are off. See docs/howto/start-times.md.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.prediction.runtimes import Confidence


class Basis(StrEnum):
    """What an estimate rests on, from the surest to the least sure."""

    NEXT_CYCLE = "next_cycle"  # it starts as soon as somebody looks
    SIMULATED = "simulated"  # the queue was played forward with predicted run times
    GUESSED = "guessed"  # … and of some that run before it nothing was known
    THROUGHPUT = "throughput"  # behind what was played forward: told by how quickly others start


@dataclass(frozen=True, slots=True)
class Estimate:
    """Half of such jobs start by `p50_at`, nine of ten by `p90_at`."""

    p50_at: int
    p90_at: int
    as_of: int
    basis: Basis
    by: Confidence | None = None  # the least sure of the run times it rests on; None: on none
    latest_at: int | None = None  # it was promised to start by then

    def within(self, now: int, earliest: int, latest: int | None) -> "Estimate":
        """As told now: not before the facts let it start, nor after what it was promised.

        What should have happened by now and did not is no start now: only the next cycle is.
        """
        is_next = self.basis is Basis.NEXT_CYCLE and earliest <= now
        least = now if is_next else max(earliest, now + _LEAST_AHEAD_MS)
        p50 = max(least, self.p50_at)
        p90 = max(p50, self.p90_at)
        if latest is None or latest < least:
            return replace(self, p50_at=p50, p90_at=p90)
        return replace(self, p50_at=min(p50, latest), p90_at=min(p90, latest), latest_at=latest)


@dataclass(frozen=True, slots=True)
class Announced:
    """What a job was first told, and when it then started."""

    job_id: JobId
    tenant_id: TenantId
    queue: str
    at: int
    simulated_at: int  # the start that playing forward gave
    p50_at: int
    p90_at: int
    started_at: int | None = None

    def started(self, at: int) -> "Announced":
        return replace(self, started_at=at)


# The numbers below were chosen on the public Philly and Venus traces under three orders of jobs,
# where nine of ten that wait start by the p90 with the narrowest windows: docs/results.md.
_NEWEST: Final = 300  # starts that are remembered
_FEW: Final = 20  # with fewer, the window goes to three times the wait and a minute
_FEW_TIMES: Final = 3
_FEW_MORE_MS: Final = 60_000
_LEAST_SLACK_MS: Final = 10_000
_ONE: Final = 1 << 16
# Queues fill up in bursts, which those that started before know nothing of: so wide at least.
_LEAST_P90: Final = 9 * _ONE // 4
_PERCENT: Final = 100
_P50: Final = 50
# What is known is of those that started, and the slowest are not among them yet: 92 of 100 of the
# known hold 90 of the next.
_P90: Final = 92


class _Stretch(NamedTuple):
    """What is made of a wait that was foreseen, in parts of `_ONE`."""

    slack_ms: int  # added before, taken away after: short waits are off by more than their length
    p50: int
    p90: int

    def apply(self, wait_ms: int) -> tuple[int, int]:
        whole = wait_ms + self.slack_ms
        # Never before what was foreseen: that others began sooner than they were told does not end
        # what is in the way of this one.
        p50 = max(wait_ms, whole * self.p50 // _ONE - self.slack_ms)
        return p50, max(p50, whole * self.p90 // _ONE - self.slack_ms)


class StartSpread:
    """By how much starts are off from what playing forward gave, of late."""

    def __init__(self) -> None:
        self._newest: deque[tuple[int, int]] = deque(maxlen=_NEWEST)  # waited, and foreseen
        self._stretch: _Stretch | None = None  # None: to be made anew

    def __len__(self) -> int:
        return len(self._newest)

    def learn(self, told: Announced) -> None:
        """A job that was told something has started."""
        if told.started_at is not None:
            waited = max(0, told.started_at - told.at)
            self._newest.append((waited, max(0, told.simulated_at - told.at)))
            self._stretch = None

    def window(self, now: int, simulated_at: int) -> tuple[int, int]:
        """p50 and p90 of a job that starts then if all goes as foreseen."""
        wait = simulated_at - now
        if wait <= 0:
            return now, now
        if len(self._newest) < _FEW:
            return simulated_at, simulated_at + (_FEW_TIMES - 1) * wait + _FEW_MORE_MS
        if self._stretch is None:
            self._stretch = _stretch_of(self._newest)
        p50, p90 = self._stretch.apply(wait)
        return now + p50, now + p90


def _stretch_of(newest: Iterable[tuple[int, int]]) -> _Stretch:
    pairs = list(newest)
    # What is usual here: seconds on one machine, hours on another.
    slack = max(_LEAST_SLACK_MS, _quantile(sorted(waited for waited, _ in pairs), _P50))
    ratios = sorted((waited + slack) * _ONE // (foreseen + slack) for waited, foreseen in pairs)
    return _Stretch(slack, _quantile(ratios, _P50), max(_LEAST_P90, _quantile(ratios, _P90)))


def _quantile(values: Sequence[int], percent: int) -> int:
    return values[min(len(values) - 1, -(-len(values) * percent // _PERCENT))]


class Tail(NamedTuple):
    """Who stands behind all that was played forward."""

    now: int
    reached: int  # up to this instant starts are known …
    started: int  # … of so many
    left: int  # and so many are behind them

    def estimate(self, spread: StartSpread) -> Estimate:
        """The same for all of them: as if they went on starting as quickly, in any order."""
        passed = max(1, self.reached - self.now)
        drained = passed * self.left // max(1, self.started)
        p50, _ = spread.window(self.now, self.reached + drained // 2)
        _, p90 = spread.window(self.now, self.reached + drained)
        return Estimate(p50, p90, self.now, Basis.THROUGHPUT)


_LEAST_AHEAD_MS: Final = 1000
_LEAST_CHANGE_MS: Final = 60_000


def is_news(before: Estimate | None, after: Estimate) -> bool:
    """Whether somebody who was told the one wants to hear of the other: a quarter of the wait that
    is left, and at least a minute."""
    if before is None:
        return True
    left = max(before.p50_at, after.p50_at) - after.as_of
    p50 = abs(after.p50_at - max(before.p50_at, after.as_of))
    late = abs(after.p90_at - max(before.p90_at, after.as_of))
    wide = max(before.p90_at, after.p90_at) - after.as_of
    return p50 > max(_LEAST_CHANGE_MS, left // 4) or late > max(_LEAST_CHANGE_MS, wide // 2)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How it went for jobs that had to wait, and were told how long."""

    jobs: int
    before_p50: int  # started by then
    before_p90: int
    median_error_ms: int  # of the p50, whichever way
    median_wait_ms: int
    median_window_ms: int  # from being told to the p90


def accuracy(told: Iterable[Announced]) -> Accuracy:
    over = [(one, one.started_at) for one in told if one.started_at is not None]
    return Accuracy(
        len(over),
        sum(at <= one.p50_at for one, at in over),
        sum(at <= one.p90_at for one, at in over),
        _middle([abs(at - one.p50_at) for one, at in over]),
        _middle([max(0, at - one.at) for one, at in over]),
        _middle([max(0, one.p90_at - one.at) for one, _ in over]),
    )


def by_queue(told: Sequence[Announced]) -> list[tuple[TenantId, str, Accuracy]]:
    """Of each tenant's queues, by name."""
    groups: dict[tuple[TenantId, str], list[Announced]] = {}
    for one in told:
        groups.setdefault((one.tenant_id, one.queue), []).append(one)
    return [(*key, accuracy(groups[key])) for key in sorted(groups)]


def _middle(values: list[int]) -> int:
    return sorted(values)[len(values) // 2] if values else 0
