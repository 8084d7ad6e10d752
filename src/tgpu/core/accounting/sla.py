"""Deadlines and wait targets: how they raise a job's priority, and whether they were met."""

from enum import StrEnum
from typing import Final

from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.lifecycle import TERMINAL, Move, Progress
from tgpu.core.model.tenant import TenantQueue

# The distance between a normal and an urgent job (see `TIER_PRIORITY`), and more than any band.
MOST_URGENT: Final = 1000


def urgency(job_class: JobClass, queue: TenantQueue | None, submitted_at: int, now: int) -> int:
    """Points of priority: none at submission, `MOST_URGENT` when it must start, and from then on.

    Of a deadline and a wait target the nearer counts. Inside a class a later submission never has
    more, as the cycle demands of every key.
    """
    points = 0
    if job_class.deadline_at is not None:
        latest_start = job_class.deadline_at - (job_class.time_limit_ms or 0)
        points = _points(submitted_at, latest_start, now)
    if queue is not None and queue.wait_target_ms is not None:
        points = max(points, _points(submitted_at, submitted_at + queue.wait_target_ms, now))
    return points


def _points(since: int, until: int, now: int) -> int:
    if now >= until:
        return MOST_URGENT
    return MOST_URGENT * (now - since) // (until - since) if now > since else 0


def missed_deadline(job: Job, progress: Progress) -> bool:
    """Whether a job that is over was over too late."""
    deadline_at = job.options.deadline_at
    if deadline_at is None or progress.ended_at is None or progress.state not in TERMINAL:
        return False
    return progress.ended_at > deadline_at


def missed_wait_target(queue: TenantQueue | None, job: Job, progress: Progress) -> bool:
    """Whether its first start came later than its queue wants. A later one is no promise."""
    if queue is None or queue.wait_target_ms is None or progress.started_at is None:
        return False
    return progress.attempt == 1 and progress.started_at > job.submitted_at + queue.wait_target_ms


class Promise(StrEnum):
    DEADLINE = "deadline"
    WAIT_TARGET = "wait_target"


def broken_by(move: Move, queue: TenantQueue | None, job: Job, after: Progress) -> Promise | None:
    """The promise that this very move breaks."""
    if move is Move.START and missed_wait_target(queue, job, after):
        return Promise.WAIT_TARGET
    return Promise.DEADLINE if missed_deadline(job, after) else None
