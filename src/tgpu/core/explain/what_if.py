"""Tries whether a job would start if it were submitted again with changes, then undoes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import PENDING
from tgpu.core.state.cluster_state import Entry, State

# Sorts behind every id that people or the service give: the newest of all.
NEWEST = JobId("\U0010fffe")


@contextmanager
def instead(state: State, entry: Entry, job: Job, now: int) -> Iterator[JobId]:
    """While it lasts, `job` waits as if it had been submitted just now, and the job of the entry
    is not there. Gives the id that it has meanwhile. The state is then exactly what it was.
    """
    state.set_aside(entry)
    try:
        state.restore(replace(job, job_id=NEWEST, submitted_at=now, after=()), PENDING)
        try:
            yield NEWEST
        finally:
            state.withdraw(NEWEST)
    finally:
        state.put_back(entry)
