"""Figures of a simulation, by the definitions that published comparisons use.

JCT is end minus submission; wait is JCT minus the job's own duration, so what preemption costs is
in it. Means are over the jobs of all partitions together, nothing is cut off at either end, and
jobs that never start are counted apart.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from tgpu.core.model.units import GPU
from tgpu.simulate.result import JobOutcome, Result

LARGE_GPUS: Final = 8  # more than one usual machine
SHORTEST_MS: Final = 10_000  # what bounds the slowdown of very short jobs
_POINTS: Final = 200  # of a distribution


@dataclass(frozen=True, slots=True)
class Distribution:
    """How something is distributed over jobs, in seconds."""

    mean: float
    median: float
    p90: float
    p99: float
    p999: float
    max: float


@dataclass(frozen=True, slots=True)
class TenantOutcome:
    """What one tenant's jobs got."""

    tenant: str
    jobs: int
    gpu_hours: float
    mean_wait_s: float
    mean_slowdown: float


@dataclass(frozen=True, slots=True)
class Summary:
    jobs: int
    finished: int
    unfinished: int
    preemptions: int
    jct_s: Distribution
    wait_s: Distribution
    large_jobs: int
    large_jct_s: Distribution
    large_wait_s: Distribution
    makespan_s: float
    use_percent: float  # of all GPUs, from the first arrival to the last end
    mean_slowdown: float
    fairness: float  # Jain's index over the tenants' mean slowdowns; 1: all alike
    cycles: int


def summary(result: Result, gpus: int) -> Summary:
    over = [outcome for outcome in result.outcomes if outcome.ended_at is not None]
    large = [outcome for outcome in over if _gpus(outcome) > LARGE_GPUS]
    began = min((outcome.arrival.job.submitted_at for outcome in over), default=0)
    ended = max((outcome.ended_at or 0 for outcome in over), default=0)
    used = sum(_gpu_ms(outcome) for outcome in over)
    offered = gpus * (ended - began)
    slowdowns = [slowdown(outcome) for outcome in over]
    return Summary(
        jobs=len(result.outcomes),
        finished=len(over),
        unfinished=result.unfinished,
        preemptions=sum(outcome.preemptions for outcome in result.outcomes),
        jct_s=spread([outcome.jct_ms for outcome in over]),
        wait_s=spread([outcome.wait_ms for outcome in over]),
        large_jobs=len(large),
        large_jct_s=spread([outcome.jct_ms for outcome in large]),
        large_wait_s=spread([outcome.wait_ms for outcome in large]),
        makespan_s=(ended - began) / 1000,
        use_percent=100 * used / offered if offered else 0.0,
        mean_slowdown=_mean(slowdowns),
        fairness=jain([share.mean_slowdown for share in shares(result)]),
        cycles=result.cycles,
    )


def spread(values_ms: Sequence[int]) -> Distribution:
    values = sorted(values_ms)
    if not values:
        return Distribution(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def at(part: float) -> float:
        """In between two jobs, in proportion: as published comparisons do."""
        place = part * (len(values) - 1)
        lower = int(place)
        upper = min(lower + 1, len(values) - 1)
        return (values[lower] + (values[upper] - values[lower]) * (place - lower)) / 1000

    mean = sum(values) / len(values) / 1000
    return Distribution(mean, at(0.5), at(0.9), at(0.99), at(0.999), values[-1] / 1000)


def slowdown(outcome: JobOutcome) -> float:
    """How many times as long as by itself a job took; very short ones count as 10 s."""
    return max(1.0, outcome.jct_ms / max(outcome.arrival.run_ms, SHORTEST_MS))


def shares(result: Result) -> list[TenantOutcome]:
    """By tenant, in order of the name."""
    groups: dict[str, list[JobOutcome]] = {}
    for outcome in result.outcomes:
        if outcome.ended_at is not None:
            groups.setdefault(outcome.arrival.job.tenant_id, []).append(outcome)
    return [
        TenantOutcome(
            tenant,
            len(members),
            sum(map(_gpu_ms, members)) / 3_600_000,
            _mean([outcome.wait_ms / 1000 for outcome in members]),
            _mean([slowdown(outcome) for outcome in members]),
        )
        for tenant, members in sorted(groups.items())
    ]


def jain(values: Sequence[float]) -> float:
    """1 where all are equal, 1/n where one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def distribution(values_ms: Sequence[int]) -> list[tuple[float, float]]:
    """Points (seconds, part of the jobs that need at most that)."""
    values = sorted(values_ms)
    count = len(values)
    if not count:
        return []
    picked = sorted({min(count - 1, count * step // _POINTS) for step in range(_POINTS + 1)})
    return [(values[at] / 1000, (at + 1) / count) for at in picked]


def as_document(found: Summary) -> dict[str, object]:
    return asdict(found)


def _gpus(outcome: JobOutcome) -> float:
    return outcome.arrival.job.request.gpu_millis / GPU


def _gpu_ms(outcome: JobOutcome) -> float:
    return _gpus(outcome) * sum(until - since for since, until in outcome.spans())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
