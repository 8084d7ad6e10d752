"""Meters of budgets agree with a sum over all holdings, whenever they are read."""

from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tgpu.core.accounting.budget import DAY_MS, NO_SPEND, WINDOWS, Spend, runs_out_at, window_start
from tgpu.core.model.tenant import Budget, Window


@dataclass
class Held:
    gpu_millis: int
    since: int
    until: int | None = None


def a_history(rng: Random) -> tuple[Spend, list[Held], int]:
    """A meter that lived through random starts, ends and reads, and what really happened."""
    now = rng.randrange(60 * DAY_MS)
    spend, held = NO_SPEND, list[Held]()
    for _ in range(30):
        now += rng.choice((0, 1, 1000, 3_600_000, DAY_MS // 3, DAY_MS, 40 * DAY_MS))
        running = [one for one in held if one.until is None]
        step = rng.choice(("start", "start", "end", "read"))
        if step == "start":
            held.append(Held(rng.choice((100, 500, 1000, 8000)), now))
            spend = spend.changed(held[-1].gpu_millis, now)
        elif step == "end" and running:
            ended = rng.choice(running)
            ended.until = now
            spend = spend.changed(-ended.gpu_millis, now)
        elif step == "read":
            spend = spend.upto(now)
    return spend, held, now


def used(held: list[Held], window: Window, now: int) -> int:
    begins = window_start(window, now)
    total = 0
    for one in held:
        until = now if one.until is None else one.until
        total += max(0, until - max(begins, one.since)) * one.gpu_millis
    return total


@given(seed=st.integers(0, 2**32), later=st.integers(0, 70 * DAY_MS))
@settings(max_examples=200)
def test_a_meter_agrees_with_the_sum_over_all_holdings(seed: int, later: int) -> None:
    spend, held, now = a_history(Random(seed))
    for at in (now, now + later):
        read = spend.upto(at)
        for window in WINDOWS:
            assert read.spent(window) == used(held, window, at), window


@given(seed=st.integers(0, 2**32), hours=st.integers(1, 500), window=st.sampled_from(WINDOWS))
def test_a_budget_runs_out_at_the_very_millisecond_that_was_foretold(
    seed: int, hours: int, window: Window
) -> None:
    spend, _, now = a_history(Random(seed))
    budget = Budget(hours * 3_600_000_000, window)
    at = runs_out_at(budget, spend, now)
    if at is None or at == now:
        return
    assert spend.upto(at).spent(window) >= budget.gpu_millis_ms
    assert spend.upto(at - 1).spent(window) < budget.gpu_millis_ms
