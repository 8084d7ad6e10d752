"""Deadlines and wait targets that a recorded move shows to be missed."""

from tgpu.core.accounting.sla import Promise, broken_by
from tgpu.core.model.events import JobMoved
from tgpu.core.state.cluster_state import State


def broken_promise(state: State, event: JobMoved) -> Promise | None:
    """Asked before the event is applied: the state still has the job."""
    entry = state.entry(event.job_id)
    if entry is None:
        return None
    use = state.ledger.queue(entry.job.tenant_id, entry.job.queue)
    queue = None if use is None else use.queue
    return broken_by(event.move, queue, entry.job, event.progress)
