"""What a command does to one job that is not over, as the event of it. Pure.

Commands on one job and on a whole selection decide by the same functions.
"""

from dataclasses import replace

from tgpu.core import lifecycle
from tgpu.core.errors import Conflict
from tgpu.core.events import JobChanged, JobMoved
from tgpu.core.lifecycle import PLACED, JobState, Move
from tgpu.core.state import Entry


def cancel_job(entry: Entry, now: int, cause: str) -> JobMoved:
    """One that runs is told to end, and takes its grace; any other is over at once."""
    job_id, progress = entry.job.job_id, entry.progress
    if progress.state in PLACED and not entry.job.options.lease:
        return JobMoved(now, job_id, Move.STOP, lifecycle.stop(job_id, progress, cause))
    ended = lifecycle.end(job_id, progress, JobState.CANCELLED, now, cause=cause)
    return JobMoved(now, job_id, Move.CANCEL, ended)


def hold_job(entry: Entry, now: int, *, held: bool) -> JobMoved:
    """Raises IllegalMove for one that does not wait."""
    job_id = entry.job.job_id
    progress = lifecycle.hold(job_id, entry.progress, held)
    return JobMoved(now, job_id, Move.HOLD if held else Move.RELEASE, progress)


def rerank_job(entry: Entry, now: int, priority: int) -> JobChanged | None:
    """None where it has that priority. Raises Conflict for a job that does not wait."""
    job_id, state = entry.job.job_id, entry.progress.state
    if state is not JobState.PENDING:
        raise Conflict(
            f"job {job_id} is {state}: only a job that waits can get another priority",
            [{"job_id": job_id, "state": str(state)}],
        )
    if entry.job.priority == priority:
        return None
    changes = (("priority", str(entry.job.priority), str(priority)),)
    return JobChanged(now, replace(entry.job, priority=priority), changes=changes)
