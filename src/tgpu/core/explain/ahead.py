"""Which waiting jobs are ahead of another in the current order."""

from collections.abc import Mapping
from heapq import nsmallest
from typing import Final, NamedTuple

from tgpu.core.model.ids import JobId
from tgpu.core.policies.slots import Order, OrderPolicy, SortKey, Standing
from tgpu.core.stages.queue_order import queue_of
from tgpu.core.state.cluster_state import Entry, State
from tgpu.core.state.waiting_queue import ClassQueue, QueueKey

FEW: Final = 5


class Ahead(NamedTuple):
    jobs: int
    first: tuple[JobId, ...] = ()  # a few, the next one first


_Place = tuple[int, Standing, SortKey]


def ahead_of(
    state: State,
    entry: Entry,
    now: int,
    policy: OrderPolicy,
    policies: Mapping[str, OrderPolicy],
) -> Ahead:
    """Counted class by class: in each, jobs stand in the order of their age.

    In a queue with an order of its own that order counts; the queue itself stands where its jobs
    do by the service's order.
    """
    service = policy.at(state, now)
    rules = queue_of(state.ledger, entry.queue.job_class)
    has_own = rules is not None and rules.policy in policies
    own = policies[rules.policy].at(state, now) if rules is not None and has_own else service
    job = entry.job
    key = (job.submitted_at, job.job_id)
    mine = _place(state, service, entry.queue, key)
    mine_by_own = _place(state, own, entry.queue, key)
    count, candidates = 0, []
    for queue in state.waiting.classes():
        same = queue_of(state.ledger, queue.job_class) is rules and rules is not None
        order, place = (own, mine_by_own) if same else (service, mine)
        before = _how_many_before(state, order, queue, place)
        count += before
        candidates += [
            (_place(state, service, queue, queue.keys[at]), queue.keys[at][1])
            for at in range(min(FEW, before))
        ]
    first = nsmallest(FEW, candidates)
    return Ahead(count, tuple(job_id for _, job_id in first))


def _place(state: State, order: Order, queue: ClassQueue, key: QueueKey) -> _Place:
    job_class = queue.job_class
    tenant_queue = queue_of(state.ledger, job_class)
    rank = 0 if tenant_queue is None else -tenant_queue.priority
    standing = order.standing(state.ledger.tenant(job_class.tenant_id), job_class.user)
    return rank, standing, order.sort_key(job_class, tenant_queue, *key)


def _how_many_before(state: State, order: Order, queue: ClassQueue, mine: _Place) -> int:
    low, high = 0, len(queue.keys)
    while low < high:
        middle = (low + high) // 2
        if _place(state, order, queue, queue.keys[middle]) < mine:
            low = middle + 1
        else:
            high = middle
    return low
