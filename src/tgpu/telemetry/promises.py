"""Deadlines and wait targets that a recorded move shows to be missed."""

from tgpu.core.accounting.sla import Promise, broken_by
from tgpu.core.model.events import JobMoved
from tgpu.service.reads.cluster_reads import ClusterReads


def broken_promise(reads: ClusterReads, event: JobMoved) -> Promise | None:
    """Asked before the event is applied: the job is still there."""
    live = reads.job(event.job_id)
    if live is None:
        return None
    queue = reads.made_queue(live.job.tenant_id, live.job.queue)
    return broken_by(event.move, queue, live.job, event.progress)
