"""The event by which a command changes a job that has not ended. Pure.

Commands on one job and on a whole selection decide by the same functions.
"""

from dataclasses import replace

from tgpu.core.errors import Conflict
from tgpu.core.model import lifecycle
from tgpu.core.model.events import JobChanged, JobMoved
from tgpu.core.model.lifecycle import PLACED, JobState, Move
from tgpu.core.state.cluster_state import Entry


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
            f"job {job_id} is {state}: only a waiting job can get another priority",
            _details(entry),
        )
    if entry.job.priority == priority:
        return None
    changes = (("priority", str(entry.job.priority), str(priority)),)
    return JobChanged(now, replace(entry.job, priority=priority), changes=changes)


def pause_job(entry: Entry, now: int) -> JobMoved | None:
    """Have all its processes stand still; None where they do. Raises Conflict where it has none."""
    problem = _has_none_to_pause(entry, "paused")
    if problem is not None:
        raise problem
    job_id, progress = entry.job.job_id, entry.progress
    if progress.paused_at is not None:
        return None
    return JobMoved(now, job_id, Move.PAUSE, lifecycle.pause(job_id, progress, now))


def resume_job(entry: Entry, now: int) -> JobMoved:
    """Raises Conflict for one that is not paused."""
    problem = _has_none_to_pause(entry, "resumed")
    if problem is not None:
        raise problem
    job_id, progress = entry.job.job_id, entry.progress
    if progress.paused_at is None:
        raise Conflict(f"job {job_id} is not paused: it runs", _details(entry))
    return JobMoved(now, job_id, Move.RESUME, lifecycle.resume(job_id, progress, now))


def _has_none_to_pause(entry: Entry, what: str) -> Conflict | None:
    job_id, progress = entry.job.job_id, entry.progress
    text = ""
    if entry.job.options.lease:
        text = (
            f"job {job_id} is a lease: it has no processes that could be {what}; "
            f"release it with: tgpu complete {job_id}"
        )
    elif progress.stopping:
        text = f"job {job_id} is being stopped, so it cannot be {what}"
    elif progress.state is JobState.PENDING:
        instead = "release" if what == "resumed" else "hold"
        text = (
            f"job {job_id} waits, and only a running job can be {what}; "
            f"for a waiting job: tgpu {instead} {job_id}"
        )
    elif progress.state is not JobState.RUNNING:
        text = (
            f"job {job_id} is {progress.state}, and only a running job can be {what}; "
            "try again in a moment"
        )
    return Conflict(text, _details(entry)) if text else None


def _details(entry: Entry) -> list[dict[str, object]]:
    return [{"job_id": entry.job.job_id, "state": str(entry.progress.state)}]
