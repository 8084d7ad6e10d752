"""Jobs in the order chosen by a plug-in policy, queue by queue."""

from collections.abc import Collection

from tgpu.core.errors import InvariantBroken
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.policies.slots import ChoicePolicy
from tgpu.core.stages.draft import Draft
from tgpu.core.stages.evict import Evictions
from tgpu.core.state.cluster_state import State
from tgpu.core.state.waiting_queue import QueueKey


def serve_by_choice(draft: Draft, policy: ChoicePolicy, evictions: Evictions) -> None:
    for queue, pending in _by_queue(draft.state, draft.served):
        while pending:
            chosen = policy.choose(queue, tuple(pending.values()))
            if chosen is None:
                break
            # Our own record of it: a plug-in may hand back a changed copy.
            job = pending.pop(chosen.job_id, None)
            if job is None:
                raise InvariantBroken(
                    f"policy {policy.name} chose job {chosen.job_id}, which it was not shown"
                )
            _serve(draft, job, policy, evictions)


def _serve(draft: Draft, job: Job, policy: ChoicePolicy, evictions: Evictions) -> None:
    entry = draft.entry(job.job_id)
    job_class = entry.queue.job_class
    if job_class in draft.refused_classes:
        return
    placement = draft.place(entry.queue)
    if placement is not None:
        draft.start(entry, placement)
        draft.take_started()
        return
    draft.tell_observer(job_class, job.job_id)
    evictions.make_room_by_choice(job, job_class, policy)


def _by_queue(
    state: State, served: Collection[JobId]
) -> list[tuple[TenantQueue, dict[JobId, Job]]]:
    """Every queue in which somebody waits, higher ones first, with its jobs, oldest first."""
    keys: dict[tuple[TenantId, str], list[QueueKey]] = {}
    for waiting in state.waiting.classes():
        owner = (waiting.job_class.tenant_id, waiting.job_class.queue)
        keys.setdefault(owner, []).extend(waiting.keys)
    found = []
    for (tenant_id, name), members in keys.items():
        use = state.ledger.queue(tenant_id, name)
        queue = use.queue if use is not None else TenantQueue(tenant_id, name)
        jobs = {}
        for _, job_id in sorted(members):
            entry = state.entry(job_id)
            assert entry is not None  # the queue and the entries are two indexes of one thing
            if job_id not in served:
                jobs[job_id] = entry.job
        found.append((queue, jobs))
    found.sort(key=lambda pair: (-pair[0].priority, pair[0].tenant_id, pair[0].name))
    return found
