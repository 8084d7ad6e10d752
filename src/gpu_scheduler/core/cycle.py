"""One scheduling cycle: the whole state in, a plan out, nothing changed.

1. Leases whose time is up end, and their GPUs count as free.
2. Jobs whose dependencies failed are given up.
3. The heads of all classes are taken in the policy's order; each is admitted and placed on a
   draft. A class whose head cannot start is passed over whole: its other jobs are no different.
"""

from collections.abc import Collection
from heapq import heapify, heappop, heapreplace

from gpu_scheduler.core.errors import InvariantBroken
from gpu_scheduler.core.ids import JobId, TenantId
from gpu_scheduler.core.job import Job, JobClass, class_of
from gpu_scheduler.core.ledger import Ledger, Trial
from gpu_scheduler.core.node import Placement
from gpu_scheduler.core.plan import Plan, Start
from gpu_scheduler.core.policy import ChoicePolicy, OrderPolicy, Policy, SortKey, Standing
from gpu_scheduler.core.queue import ClassQueue, QueueKey
from gpu_scheduler.core.stages.admit import refuse
from gpu_scheduler.core.stages.place import place
from gpu_scheduler.core.state import State
from gpu_scheduler.core.tenant import TenantQueue


def schedule(
    state: State, now: int, policy: Policy, closed: Collection[JobClass] = frozenset()
) -> Plan:
    """Decide what starts now. Apply `TimePassed(now)` first, so that back-offs have ended.

    Nothing of the `closed` classes starts: somebody else has refused them.
    """
    expired = state.expired_leases(now)
    with Trial(state.ledger) as draft:
        for job_id in expired:
            entry = state.entry(job_id)
            if entry is not None and entry.progress.placement is not None:
                draft.give(entry.job, entry.progress.placement)
        if isinstance(policy, ChoicePolicy):
            starts = _fill_by_choice(state, draft, policy, closed)
        else:
            starts = _fill_by_key(state, draft, now, policy, closed)
    return Plan(tuple(starts), tuple(expired), tuple(state.doomed()))


def _fill_by_key(
    state: State, draft: Trial, now: int, policy: OrderPolicy, closed: Collection[JobClass]
) -> list[Start]:
    # (queue's rank, tenant's share, key, class, position in it). No two keys are equal, since each
    # ends in a job id, so the heap never compares classes.
    heads: list[tuple[int, Standing, SortKey, ClassQueue, int]] = []
    order = policy.at(state, now)
    for queue in state.waiting.classes():
        job_class = queue.job_class
        if job_class in closed:
            continue
        submitted_at, job_id = queue.keys[0]
        key = order.sort_key(job_class, _queue(draft.books, job_class), submitted_at, job_id)
        share = order.standing(draft.books.tenant(job_class.tenant_id), job_class.user)
        heads.append((_rank(draft.books, job_class), share, key, queue, 0))
    heapify(heads)
    starts: list[Start] = []
    full: set[object] = set()  # shapes that found no room; within a cycle room only shrinks
    while heads:
        rank, share, key, queue, position = heads[0]
        job_class = queue.job_class
        share_now = order.standing(draft.books.tenant(job_class.tenant_id), job_class.user)
        if share_now != share:  # others of its tenant started meanwhile: back to its new place
            heapreplace(heads, (rank, share_now, key, queue, position))
            continue
        placement = _try(draft, job_class, full)
        if placement is None:
            heappop(heads)
            continue
        entry = state.entry(key[2])
        assert entry is not None  # the queue and the entries are two indexes of one thing
        draft.take(entry.job, placement)
        starts.append(Start(key[2], placement))
        if position + 1 == len(queue.keys):
            heappop(heads)
            continue
        submitted_at, job_id = queue.keys[position + 1]
        key = order.sort_key(job_class, _queue(draft.books, job_class), submitted_at, job_id)
        heapreplace(heads, (rank, share, key, queue, position + 1))
    return starts


def _fill_by_choice(
    state: State, draft: Trial, policy: ChoicePolicy, closed: Collection[JobClass]
) -> list[Start]:
    starts: list[Start] = []
    full: set[object] = set()
    for queue, pending in _by_queue(state):
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
            job_class = class_of(job)
            placement = None if job_class in closed else _try(draft, job_class, full)
            if placement is not None:
                draft.take(job, placement)
                starts.append(Start(job.job_id, placement))
    return starts


def _by_queue(state: State) -> list[tuple[TenantQueue, dict[JobId, Job]]]:
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
            assert entry is not None
            jobs[job_id] = entry.job
        found.append((queue, jobs))
    found.sort(key=lambda pair: (-pair[0].priority, pair[0].tenant_id, pair[0].name))
    return found


def _queue(books: Ledger, job_class: JobClass) -> TenantQueue | None:
    use = books.queue(job_class.tenant_id, job_class.queue)
    return None if use is None else use.queue


def _rank(books: Ledger, job_class: JobClass) -> int:
    """Higher queues first."""
    use = books.queue(job_class.tenant_id, job_class.queue)
    return 0 if use is None else -use.queue.priority


def _try(draft: Trial, job_class: JobClass, full: set[object]) -> Placement | None:
    shape = job_class.request
    if shape in full or refuse(draft.books, job_class) is not None:
        return None
    placement = place(draft.books, job_class)
    if placement is None:
        # Where a tenant's quotas by type steer an open request, another may look further.
        steered = draft.books.tenant(job_class.tenant_id).tenant.max_gpu_millis_by_type
        if job_class.request.gpu_type is not None or not steered:
            full.add(shape)
    return placement
