"""The engine's key of an attempt."""

from tgpu.core.model.job import Job
from tgpu.core.state.cluster_state import Entry
from tgpu.engines.api import AttemptKey


def attempt_key(job: Job, attempt: int) -> AttemptKey:
    return AttemptKey(job.job_id, attempt, job.identity)


def current_key(entry: Entry) -> AttemptKey:
    """Of the newest attempt of a job that is not over."""
    return attempt_key(entry.job, entry.progress.attempt)
