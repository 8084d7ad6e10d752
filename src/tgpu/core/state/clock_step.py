"""A step of the wall clock: shifts the instants that durations are counted from.

So whoever has run or waited for an hour has done so for an hour, before the step and after it.
Instants that people mean (deadlines, bookings, windows of budgets) stay where they are.
"""

import dataclasses
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import PLACED, Progress

if TYPE_CHECKING:  # which needs the events, which need nothing of it
    from tgpu.core.state.cluster_state import State


def shifted(progress: Progress, by: int) -> Progress:
    """The same progress on a clock that was set by so much."""
    if progress.state in PLACED:
        started_at, checkpoint_at = progress.started_at, progress.checkpoint_at
        paused_at = progress.paused_at
        return replace(
            progress,
            started_at=None if started_at is None else started_at + by,
            checkpoint_at=None if checkpoint_at is None else checkpoint_at + by,
            paused_at=None if paused_at is None else paused_at + by,
        )
    if progress.eligible_at:  # a back-off
        return replace(progress, eligible_at=max(1, progress.eligible_at + by))
    return progress


def aged(job: Job, by: int) -> Job:
    """The same job, as old as before."""
    return dataclasses.replace(job, submitted_at=job.submitted_at + by)


def moved_by(state: "State", by: int) -> tuple[tuple[JobId, Progress], ...]:
    """The jobs that a step changes, as they are after it, by id."""
    found = []
    for entry in state.entries():
        after = shifted(entry.progress, by)
        if after is not entry.progress:
            found.append((entry.job.job_id, after))
    return tuple(sorted(found, key=lambda one: one[0]))
