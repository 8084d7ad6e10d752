"""Before anything is submitted: when would it start, and what would start it sooner?"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tgpu.core.model.job import Job
from tgpu.core.projection.estimate import Estimate
from tgpu.core.projection.start_sooner import (
    ForecastBasis,
    ForecastStarts,
    SoonerStart,
    as_new,
    play,
    sooner_starts,
)
from tgpu.service.forecast.estimates import Estimates

_STEPS: Final = 8  # of a run, before others get their turn
# Of computing for one part of a question, on a clock that goes on: what is known by then is told.
_LONGEST_SECONDS: Final = 2.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class StartForecast:
    """What would become of a submission."""

    now: int
    estimate: Estimate | None = None  # of its first job; None: nothing can be said
    last: Estimate | None = None  # of its last, where it is many and all of them would start
    sooner: tuple[tuple[SoonerStart, Estimate], ...] = ()


async def forecast_start(estimates: Estimates, jobs: Sequence[Job]) -> StartForecast:
    """When these would start if they were submitted now; nothing of it is kept."""
    async with estimates.questions:  # one at a time: however many ask, the service has its turn
        return await _forecast_start(estimates, jobs)


async def _forecast_start(estimates: Estimates, jobs: Sequence[Job]) -> StartForecast:
    now, most = estimates.clock.now(), estimates.settings.most_jobs
    new = [as_new(job, now) for job in jobs[:most]]
    basis = ForecastBasis(estimates.picture(now), now, estimates.context(), estimates.runs(now))
    steps = 2 * most
    longest = None if estimates.clock.manual else _LONGEST_SECONDS
    played: list[ForecastStarts] = await _drained(play(basis, new, steps), longest)
    if not played:
        return StartForecast(now)
    asked = played[-1]
    first, guessed = asked.first_at, asked.guessed_from
    better: list[SoonerStart] = []
    if first is None or first > now:
        until = asked.reached + 1 if first is None else first
        better = await _drained(sooner_starts(basis, new[0], until, 2 * steps), longest)
    is_whole = len(jobs) > 1 and len(new) == len(jobs)
    last = asked.last_at if is_whole else None
    return StartForecast(
        now,
        None if first is None else estimates.estimate(now, first, guessed, asked.first_by),
        None if last is None else estimates.estimate(now, last, guessed, asked.last_by),
        tuple((one, estimates.estimate(now, one.at, guessed, one.by)) for one in better),
    )


async def _drained(steps: Iterator[_T | None], longest: float | None) -> list[_T]:
    found, spent, began = [], 0.0, time.perf_counter()
    for number, step in enumerate(steps):
        if step is not None:
            found.append(step)
        if number % _STEPS == 0:
            spent += time.perf_counter() - began
            if longest is not None and spent >= longest:
                break
            await asyncio.sleep(0)
            began = time.perf_counter()
    return found
