"""Top consumers: by user, and by job, with an array or sweep as one. Pure."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.units import GPU_HOUR
from tgpu.report.collect import AttemptRun, Collected
from tgpu.report.prices import Prices

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class UserFigures:
    """A user of one tenant: the same name in another may be somebody else."""

    user: str
    tenant_id: TenantId
    jobs: int  # that had GPUs
    gpu_hours: float
    percent: float  # of all GPU-hours
    cost: float | None


@dataclass(frozen=True, slots=True)
class JobFigures:
    job_id: str  # of an array or sweep: its id
    name: str
    user: str
    tenant_id: TenantId
    jobs: int  # 1, or how many of its elements had GPUs
    gpu_hours: float
    cost: float | None


def by_user(found: Collected, prices: Prices) -> tuple[UserFigures, ...]:
    """The most first."""
    groups = _grouped(found, lambda run: (run.tenant_id, run.user))
    in_all = sum(run.gpu_millis_ms for run in found.runs) or 1
    rows = [
        UserFigures(
            user,
            tenant_id,
            len({run.job_id for run in runs}),
            _hours(runs),
            round(100 * sum(run.gpu_millis_ms for run in runs) / in_all, 2),
            _cost(found, runs, prices),
        )
        for (tenant_id, user), runs in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.gpu_hours, row.user, row.tenant_id)))


def top_jobs(found: Collected, prices: Prices, most: int) -> tuple[JobFigures, ...]:
    groups = _grouped(found, lambda run: (run.array_id or str(run.job_id), bool(run.array_id)))
    largest = sorted(
        groups.items(), key=lambda item: (-sum(run.gpu_millis_ms for run in item[1]), item[0])
    )
    return tuple(
        JobFigures(
            name,
            runs[0].name,
            runs[0].user,
            runs[0].tenant_id,
            len({run.job_id for run in runs}),
            _hours(runs),
            _cost(found, runs, prices),
        )
        for (name, _), runs in largest[:most]
    )


def largest_ids(
    found: Collected, key: Callable[[AttemptRun], K], most: int
) -> dict[K, list[JobId]]:
    """The jobs of each that used most."""
    return {
        name: list(dict.fromkeys(r.job_id for r in sorted(runs, key=lambda r: -r.gpu_millis_ms)))[
            :most
        ]
        for name, runs in _grouped(found, key).items()
    }


def _grouped(found: Collected, key: Callable[[AttemptRun], K]) -> dict[K, list[AttemptRun]]:
    groups: dict[K, list[AttemptRun]] = {}
    for run in found.runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def gpu_hours(gpu_millis_ms: int) -> float:
    return round(gpu_millis_ms / GPU_HOUR, 6)


def _hours(runs: list[AttemptRun]) -> float:
    return gpu_hours(sum(run.gpu_millis_ms for run in runs))


def _cost(found: Collected, runs: list[AttemptRun], prices: Prices) -> float | None:
    return round(sum(prices.of(found, run) for run in runs), 2) if prices.is_known else None
