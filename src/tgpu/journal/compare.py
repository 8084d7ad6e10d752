"""Figures of a past period: as it was, and as it would have been."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import TERMINAL
from tgpu.core.model.units import GPU
from tgpu.journal.recorded_past import NOTHING, RecordedPast
from tgpu.journal.resimulate import Resimulated
from tgpu.simulate.measures import SHORTEST_MS, Distribution, jain, spread

_GPU_HOUR: Final = GPU * 3_600_000


class Course(NamedTuple):
    """How one job went. Instants in ms; of its GPUs only what lies in the stretch."""

    job_id: JobId
    tenant: str
    gpu_millis: int
    submitted_at: int
    first_start: int | None
    ended_at: int | None
    run_ms: int
    held_ms: int
    lost_ms: int
    preemptions: int


@dataclass(frozen=True, slots=True)
class ComparedTenantFigures:
    tenant: str
    jobs: int
    mean_wait_s: float
    p90_wait_s: float
    gpu_hours: float
    share_percent: float  # of the GPU time that was used


@dataclass(frozen=True, slots=True)
class ComparedFigures:
    jobs: int  # that came, or were waiting
    started: int
    ended: int
    wait_s: Distribution  # until the first start; of those that wait still, so far
    gpu_hours: float
    offered_gpu_hours: float
    use_percent: float
    preemptions: int
    lost_gpu_hours: float
    cost: float
    fairness: float  # Jain's index over the tenants' mean slowdowns; 1: all alike
    tenants: tuple[ComparedTenantFigures, ...]


def as_it_was(past: RecordedPast) -> list[Course]:
    courses = []
    for job_id, life in past.lives.items():
        before = past.before.get(job_id, NOTHING)
        held = life.held_ms - before.held_ms
        own = max(0, life.run_ms - before.run_ms)
        courses.append(
            Course(
                job_id,
                life.job.tenant_id,
                life.job.request.gpu_millis,
                life.job.submitted_at,
                life.first_start,
                life.ended_at,
                life.run_ms,
                held,
                0 if job_id in past.cut else max(0, held - own),
                life.preemptions - before.preemptions,
            )
        )
    return courses


def as_it_went(past: RecordedPast, lived: Resimulated) -> list[Course]:
    return [
        Course(
            job_id,
            past.lives[job_id].job.tenant_id,
            past.lives[job_id].job.request.gpu_millis,
            past.lives[job_id].job.submitted_at,
            fate.first_start,
            fate.ended_at,
            past.lives[job_id].run_ms,
            fate.held_ms,
            fate.lost_ms,
            fate.preemptions,
        )
        for job_id, fate in lived.fates.items()
    ]


def figures(
    past: RecordedPast, courses: Sequence[Course], offered: int, cost_per_hour: float
) -> ComparedFigures:
    counted = [course for course in courses if _counts(past, course.job_id)]
    used = sum(course.held_ms * course.gpu_millis for course in courses)
    by_tenant: dict[str, list[Course]] = {}
    for course in courses:
        by_tenant.setdefault(course.tenant, []).append(course)
    tenants = tuple(_tenant(past, name, by_tenant[name], used) for name in sorted(by_tenant))
    slowdowns: dict[str, list[float]] = {}
    for course in counted:
        slowdowns.setdefault(course.tenant, []).append(_slowdown(past, course))
    return ComparedFigures(
        jobs=len(counted),
        started=sum(course.first_start is not None for course in counted),
        ended=sum(course.ended_at is not None for course in counted),
        wait_s=spread([_wait_ms(past, course) for course in counted]),
        gpu_hours=used / _GPU_HOUR,
        offered_gpu_hours=offered / _GPU_HOUR,
        use_percent=100 * used / offered if offered else 0.0,
        preemptions=sum(course.preemptions for course in courses),
        lost_gpu_hours=sum(one.lost_ms * one.gpu_millis for one in courses) / _GPU_HOUR,
        cost=cost_per_hour * used / _GPU_HOUR,
        fairness=jain([_mean(slowdowns[name]) for name in sorted(slowdowns)]),
        tenants=tenants,
    )


def _counts(past: RecordedPast, job_id: JobId) -> bool:
    """Jobs that had started before cannot wait any more; who was cancelled while it waited might
    have waited for ever."""
    life = past.lives[job_id]
    if life.first_start is None:
        return life.state not in TERMINAL
    return life.first_start >= past.begins


def _wait_ms(past: RecordedPast, course: Course) -> int:
    until = course.first_start
    if until is None:
        until = past.ends if course.ended_at is None else course.ended_at
    return max(0, until - course.submitted_at)


def _slowdown(past: RecordedPast, course: Course) -> float:
    ended = past.ends if course.ended_at is None else course.ended_at
    return max(1.0, (ended - course.submitted_at) / max(course.run_ms, SHORTEST_MS))


def _tenant(
    past: RecordedPast, name: str, courses: Sequence[Course], used: int
) -> ComparedTenantFigures:
    waits = [_wait_ms(past, course) for course in courses if _counts(past, course.job_id)]
    own = sum(course.held_ms * course.gpu_millis for course in courses)
    found = spread(waits)
    return ComparedTenantFigures(
        name,
        len(waits),
        found.mean,
        found.p90,
        own / _GPU_HOUR,
        100 * own / used if used else 0.0,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 1.0
