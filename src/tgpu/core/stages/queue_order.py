"""The waiting classes in queue order, by their heads, without sorting the rest.

A class is represented by its oldest job. Queues with an order of their own stand in the line as
one: their best job by the service's order says where, and their own order says who is served.
"""

from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

from tgpu.core.capacity.ledger import Ledger, QueueName
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import JobClass
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.policies.slots import Order, SortKey, Standing, is_parted
from tgpu.core.state.waiting_queue import ClassQueue

_ALIKE: Final = (0, 0)


class Head(NamedTuple):
    """The next job of a class, where it stands."""

    rank: int  # higher queues first
    standing: Standing
    key: SortKey  # ends in the job's id, so no two are equal and nothing behind is compared
    queue: ClassQueue
    position: int


class ClassOrder:
    """Classes in one order. `next` is who is served; then `advance` or `drop` its class."""

    def __init__(
        self, ledger: Ledger, order: Order, queues: Iterable[ClassQueue], skip: Collection[JobId]
    ) -> None:
        """`skip` are jobs that are served, or kept back, elsewhere."""
        self._ledger = ledger
        self._order = order
        self._skip = skip
        self._is_flat = order.is_flat
        if is_parted(order):
            queues = order.parts(queues)
        self._heads = [head for queue in queues if (head := self._head(queue, 0)) is not None]
        heapify(self._heads)

    def has_more(self) -> bool:
        return bool(self._heads)

    def next(self) -> Head | None:
        while self._heads:
            head = self._heads[0]
            if self._is_flat:
                return head
            standing = self._standing(head.queue.job_class)
            if standing == head.standing:
                return head
            # Others of its tenant started meanwhile: back to its new place.
            heapreplace(self._heads, head._replace(standing=standing))
        return None

    def advance(self, head: Head) -> None:
        """The head was served: the next of its class."""
        position = head.position + 1
        is_last = position == len(head.queue.keys)
        following = None if is_last else self._head(head.queue, position)
        if following is None:
            heappop(self._heads)
        else:
            heapreplace(self._heads, following)

    def drop(self, head: Head) -> None:
        """The head cannot be served, so nobody of its class can: they are no different."""
        heappop(self._heads)

    def best(self, order: Order) -> SortKey:
        """The lowest key of all heads by another order."""
        return min(
            order.sort_key(
                head.queue.job_class,
                queue_of(self._ledger, head.queue.job_class),
                *head.queue.keys[head.position],
            )
            for head in self._heads
        )

    def _head(self, queue: ClassQueue, position: int) -> Head | None:
        keys = queue.keys
        count = len(keys)
        if self._skip:
            while position < count and keys[position][1] in self._skip:
                position += 1
        if position >= count:
            return None
        job_class = queue.job_class
        submitted_at, job_id = keys[position]
        tenant_queue = queue_of(self._ledger, job_class) if self._ledger.queues else None
        key = self._order.sort_key(job_class, tenant_queue, submitted_at, job_id)
        rank = 0 if tenant_queue is None else -tenant_queue.priority
        standing = _ALIKE if self._is_flat else self._standing(job_class)
        return Head(rank, standing, key, queue, position)

    def _standing(self, job_class: JobClass) -> Standing:
        return self._order.standing(self._ledger.tenant(job_class.tenant_id), job_class.user)


class QueueOrder:
    """The line of the service, in which queues with an order of their own have one place each."""

    def __init__(
        self,
        ledger: Ledger,
        order: Order,
        own_orders: Mapping[str, Order],
        queues: Iterable[ClassQueue],
        skip: Collection[JobId],
    ) -> None:
        self._ledger = ledger
        self._order = order
        self._own: list[ClassOrder] = []
        if not own_orders:
            self._plain = ClassOrder(ledger, order, queues, skip)
            return
        plain: list[ClassQueue] = []
        own: dict[QueueName, list[ClassQueue]] = {}
        for queue in queues:
            rules = queue_of(ledger, queue.job_class)
            if rules is not None and rules.policy in own_orders:
                own.setdefault((rules.tenant_id, rules.name), []).append(queue)
            else:
                plain.append(queue)
        self._plain = ClassOrder(ledger, order, plain, skip)
        for name in sorted(own):
            rules = queue_of(ledger, own[name][0].job_class)
            assert rules is not None  # it was looked at just now
            self._own.append(ClassOrder(ledger, own_orders[rules.policy], own[name], skip))

    def has_more(self) -> bool:
        if not self._own:
            return self._plain.has_more()
        return self._plain.has_more() or any(line.has_more() for line in self._own)

    def next(self) -> tuple[ClassOrder, Head] | None:
        """Who is served next, and the line to tell what became of it."""
        best = self._plain.next()
        found = None if best is None else (self._plain, best)
        if not self._own:
            return found
        place = None if best is None else best[:3]
        for line in self._own:
            head = line.next()
            if head is None:
                continue
            job_class = head.queue.job_class
            standing = self._order.standing(
                self._ledger.tenant(job_class.tenant_id), job_class.user
            )
            here = (head.rank, standing, line.best(self._order))
            if place is None or here < place:
                found, place = (line, head), here
        return found


def queue_of(ledger: Ledger, job_class: JobClass) -> TenantQueue | None:
    use = ledger.queue(job_class.tenant_id, job_class.queue)
    return None if use is None else use.queue
