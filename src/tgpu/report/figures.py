"""The numbers of a report: totals, and what was in use in each step of time. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from tgpu.core.model.ids import TenantId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.units import GPU
from tgpu.report.collect import AttemptRun, Collected, GpuName, totals
from tgpu.report.consumers import JobFigures, UserFigures, by_user, gpu_hours, top_jobs
from tgpu.report.prices import Prices

_STEPS_MS: Final = tuple(
    1000 * seconds
    for seconds in (
        *(1, 5, 15, 60, 300, 900, 1800),
        *(3600 * hours for hours in (1, 2, 3, 6, 12)),
        *(86_400 * days for days in (1, 2, 7, 30)),
    )
)
_MOST_STEPS: Final = 180
TOP_JOBS: Final = 20


class Series:
    """An amount over time in equal steps; the last may be cut short. Adding is quick."""

    def __init__(self, since: int, until: int) -> None:
        step, steps = step_of(since, until)
        self._since = since
        self._until = until
        self._step = step
        self._steps = steps
        self._last_ms = max(1, until - since) - step * (steps - 1)
        self._ends = [0] * steps  # of stretches that fill a step in part
        # Of the amount in whole steps, where it changes: long stretches cost what short ones do.
        self._change = [0] * (steps + 1)

    def add(self, since: int, until: int, amount: int) -> None:
        """`amount` for all of the time between the two."""
        until = min(until, self._until)
        first, begin = divmod(max(0, since - self._since), self._step)
        last, end = divmod(max(0, until - self._since), self._step)
        if first >= self._steps or until <= since:
            return
        if last >= self._steps:
            last, end = self._steps, 0
        if first == last:
            self._ends[first] += amount * (end - begin)
            return
        self._ends[first] -= amount * begin
        if last < self._steps:
            self._ends[last] += amount * end
        self._change[first] += amount
        self._change[last] -= amount

    def means(self) -> list[float]:
        """The mean amount in each step."""
        found, level = [], 0
        for ends, change in zip(self._ends, self._change, strict=False):
            level += change
            found.append(level + ends / self._step)
        found[-1] *= self._step / self._last_ms
        return found


@dataclass(frozen=True, slots=True)
class TenantFigures:
    tenant_id: TenantId
    submitted: int
    completed: int
    failed: int
    cancelled: int
    gpu_hours: float
    cost: float | None
    mean_wait_s: float | None
    p90_wait_s: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    since: int
    until: int
    jobs_submitted: int
    jobs_started: int
    jobs_completed: int
    jobs_failed: int
    jobs_cancelled: int
    jobs_running: int  # at the end
    jobs_waiting: int
    gpus: int  # at the end
    gpu_hours: float
    cost: float | None  # None: GPU time has no price
    mean_wait_s: float | None  # None: no job started
    median_wait_s: float | None
    p90_wait_s: float | None
    longest_wait_s: float | None
    idle_percent: float | None  # of the GPUs' time in which no job had them; None: no GPUs
    preemptions: int
    failures: tuple[tuple[str, int], ...]  # by kind, the most frequent first
    tenants: tuple[TenantFigures, ...]  # by use, the most first
    users: tuple[UserFigures, ...]  # the same
    top_jobs: tuple[JobFigures, ...]  # that used most, an array or sweep as one
    currency: str = ""


def figures(found: Collected, prices: Prices | None = None) -> Figures:
    """Without `prices`, at the one that was set last."""
    prices = Prices(found.price) if prices is None else prices
    used: dict[TenantId, int] = {}
    costs: dict[TenantId, float] = {}
    for run in found.runs:
        used[run.tenant_id] = used.get(run.tenant_id, 0) + run.gpu_millis_ms
        costs[run.tenant_id] = costs.get(run.tenant_id, 0.0) + prices.of(found, run)
    waits = sorted(wait for each in found.waits_ms.values() for wait in each)
    ended, in_all = totals(found.ended), sum(used.values())
    there = capacity_ms(found)
    return Figures(
        since=found.since,
        until=found.until,
        jobs_submitted=found.submitted.total(),
        jobs_started=len(waits),
        jobs_completed=ended.get(JobState.COMPLETED, 0),
        jobs_failed=ended.get(JobState.FAILED, 0),
        jobs_cancelled=ended.get(JobState.CANCELLED, 0),
        jobs_running=found.running,
        jobs_waiting=found.waiting,
        gpus=found.capacity[-1][1] if found.capacity else 0,
        gpu_hours=gpu_hours(in_all),
        cost=round(sum(costs.values()), 2) if prices.is_known else None,
        mean_wait_s=_mean_s(waits),
        median_wait_s=_part_s(waits, 0.5),
        p90_wait_s=_part_s(waits, 0.9),
        longest_wait_s=_part_s(waits, 1.0),
        idle_percent=None if not there else round(100 * max(0.0, 1 - in_all / (GPU * there)), 2),
        preemptions=found.preemptions,
        failures=tuple(
            sorted(((fault.value, n) for fault, n in found.failures.items()), key=_most_first)
        ),
        tenants=_tenants(found, used, costs if prices.is_known else None),
        users=by_user(found, prices),
        top_jobs=top_jobs(found, prices, TOP_JOBS),
        currency=prices.currency if prices.is_known else "",
    )


def capacity_ms(found: Collected) -> int:
    """GPUs times milliseconds that there were in the window."""
    total = 0
    ends = [*(at for at, _ in found.capacity[1:]), found.until]
    for number, ((at, gpus), end) in enumerate(zip(found.capacity, ends, strict=False)):
        # The first is what there was before as well: nobody wrote down anything else.
        begin = found.since if number == 0 else max(at, found.since)
        total += gpus * max(0, min(end, found.until) - begin)
    return total


def step_of(since: int, until: int) -> tuple[int, int]:
    """How long a step of time is, and how many there are."""
    length = max(1, until - since)
    step = next((each for each in _STEPS_MS if length / each <= _MOST_STEPS), None)
    step = step or ceil(length / _MOST_STEPS)
    return step, ceil(length / step)


def edges_of(found: Collected) -> list[int]:
    """Between the steps, with both ends."""
    step, steps = step_of(found.since, found.until)
    return [
        *(found.since + step * number for number in range(steps)),
        max(found.until, found.since + 1),
    ]


def use_by(
    found: Collected, owners: Sequence[str], owner: Callable[[AttemptRun], str]
) -> list[list[float]]:
    """GPUs in use by each of these, and by all others, in each step."""
    places = {name: number for number, name in enumerate(owners)}
    series = [Series(found.since, found.until) for _ in range(len(owners) + 1)]
    for run in found.runs:
        amount = sum(held.millis for held in run.gpus)
        series[places.get(owner(run), len(owners))].add(run.since, run.until, amount)
    return [[mean / GPU for mean in each.means()] for each in series]


def use_by_gpu(found: Collected) -> dict[GpuName, list[float]]:
    """The part of each GPU that jobs had, in each step; all GPUs that were there."""
    series: dict[GpuName, Series] = {}
    for run in found.runs:
        for held in run.gpus:
            name = (held.node, held.gpu)
            one = series.get(name)
            if one is None:
                one = series[name] = Series(found.since, found.until)
            one.add(run.since, run.until, held.millis)
    names = sorted(set(found.gpus) | set(series))
    idle = [0.0] * step_of(found.since, found.until)[1]
    return {
        name: [mean / GPU for mean in series[name].means()] if name in series else idle
        for name in names
    }


def _tenants(
    found: Collected, used: dict[TenantId, int], costs: dict[TenantId, float] | None
) -> tuple[TenantFigures, ...]:
    names = {*found.submitted, *used, *found.waits_ms, *(tenant_id for tenant_id, _ in found.ended)}
    rows = []
    for tenant_id in sorted(names, key=lambda name: (-used.get(name, 0), name)):
        waits = sorted(found.waits_ms.get(tenant_id, ()))
        amount = used.get(tenant_id, 0)
        rows.append(
            TenantFigures(
                tenant_id,
                found.submitted[tenant_id],
                found.ended[tenant_id, JobState.COMPLETED],
                found.ended[tenant_id, JobState.FAILED],
                found.ended[tenant_id, JobState.CANCELLED],
                gpu_hours(amount),
                None if costs is None else round(costs.get(tenant_id, 0.0), 2),
                _mean_s(waits),
                _part_s(waits, 0.9),
            )
        )
    return tuple(rows)


def _mean_s(waits_ms: Sequence[int]) -> float | None:
    return round(sum(waits_ms) / len(waits_ms) / 1000, 3) if waits_ms else None


def _part_s(waits_ms: Sequence[int], part: float) -> float | None:
    """What this part of them did not exceed; they are sorted."""
    if not waits_ms:
        return None
    return waits_ms[max(0, ceil(part * len(waits_ms)) - 1)] / 1000


def _most_first(row: tuple[str, int]) -> tuple[int, str]:
    return -row[1], row[0]
