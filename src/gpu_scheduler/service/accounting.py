"""What a commit uses up, worked out from its moves in the one place where all moves pass."""

from collections.abc import Sequence

from gpu_scheduler.core.events import Event, JobMoved, UsageAdded
from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.lifecycle import Progress
from gpu_scheduler.core.state import State
from gpu_scheduler.core.usage import NO_USAGE, total, usage_of


def usage_events(state: State, events: Sequence[Event]) -> list[UsageAdded]:
    """One event for each tenant and queue that used something, in the order of the moves."""
    latest: dict[JobId, Progress] = {}
    parts = []
    at = 0
    for event in events:
        if not isinstance(event, JobMoved):
            continue
        entry = state.entry(event.job_id)
        if entry is None:
            continue
        before = latest.get(event.job_id, entry.progress)
        latest[event.job_id] = event.progress
        used = usage_of(entry.job, before, event.progress, event.at)
        if used != NO_USAGE:
            at = max(at, event.at)
            parts.append((entry.job.tenant_id, entry.job.queue, used))
    return [
        UsageAdded(at, tenant_id, queue, used) for (tenant_id, queue), used in total(parts).items()
    ]
