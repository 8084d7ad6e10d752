"""One scheduling cycle: the whole state in, a plan out, nothing changed.

1. Leases whose time is up end, and their GPUs count as free.
2. Jobs whose dependencies failed are given up.
3. The heads of all classes are taken in the policy's order; each is admitted and placed on a
   draft. A class whose head cannot start is passed over whole: its other jobs are no different.
"""

from heapq import heapify, heappop, heapreplace

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import JobClass
from gpu_scheduler.core.ledger import Draft
from gpu_scheduler.core.node import Placement
from gpu_scheduler.core.plan import Plan, Start
from gpu_scheduler.core.policy import OrderPolicy, SortKey
from gpu_scheduler.core.queue import ClassQueue
from gpu_scheduler.core.stages.admit import refuse
from gpu_scheduler.core.stages.place import place
from gpu_scheduler.core.state import State


def schedule(state: State, now: int, policy: OrderPolicy) -> Plan:
    """Decide what starts now. Apply `TimePassed(now)` first, so that back-offs have ended."""
    draft = Draft(state.ledger)
    expired = state.expired_leases(now)
    for job_id in expired:
        entry = state.entry(job_id)
        if entry is not None and entry.progress.placement is not None:
            draft.give(entry.job, entry.progress.placement)
    starts = _fill(state, draft, now, policy)
    return Plan(tuple(starts), tuple(expired), tuple(state.doomed()))


def _fill(state: State, draft: Draft, now: int, policy: OrderPolicy) -> list[Start]:
    # (key, number of the class, class, position in it); the number keeps the heap from comparing
    # classes, and no two keys are equal anyway, since each ends in a job id.
    heads: list[tuple[SortKey, int, ClassQueue, int]] = []
    for number, queue in enumerate(state.waiting.classes()):
        submitted_at, job_id = queue.keys[0]
        key = policy.sort_key(queue.job_class, submitted_at, job_id, now)
        heads.append((key, number, queue, 0))
    heapify(heads)
    starts: list[Start] = []
    full: set[object] = set()  # shapes that found no room; within a cycle room only shrinks
    while heads:
        (_, _, job_id), number, queue, position = heads[0]
        placement = _try(draft, queue.job_class, full)
        if placement is None:
            heappop(heads)
            continue
        entry = state.entry(job_id)
        assert entry is not None  # the queue and the entries are two indexes of one thing
        draft.take(entry.job, placement)
        starts.append(Start(JobId(job_id), placement))
        if position + 1 == len(queue.keys):
            heappop(heads)
            continue
        submitted_at, job_id = queue.keys[position + 1]
        key = policy.sort_key(queue.job_class, submitted_at, job_id, now)
        heapreplace(heads, (key, number, queue, position + 1))
    return starts


def _try(draft: Draft, job_class: JobClass, full: set[object]) -> Placement | None:
    shape = (job_class.request, job_class.allowed_gpus)
    if shape in full or refuse(draft, job_class) is not None:
        return None
    placement = place(draft, job_class)
    if placement is None:
        # Where a tenant's quotas by type steer an open request, another may look further.
        steered = draft.tenant(job_class.tenant_id).tenant.max_gpu_millis_by_type
        if job_class.request.gpu_type is not None or not steered:
            full.add(shape)
    return placement
