"""The waiting jobs, grouped into classes.

Jobs of one class differ only in age, so the oldest stands for all: a cycle looks at the heads and,
when one does not fit, passes over its whole class. A million jobs in a thousand classes cost what a
thousand jobs cost.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final, NamedTuple

from sortedcontainers import SortedList

from tgpu.core.errors import InvariantBroken
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job, JobClass, Options, Request, class_of

_MOST_SHAPES: Final = 100_000
_MOST_KNOWN: Final = 10_000
_MOST_LISTED: Final = 2_000  # as many keys as moving them costs less than a sorted list's upkeep

QueueKey = tuple[int, JobId]  # (submitted_at, job id): the order inside every class


class ClassQueue:
    """One class: its waiting jobs in order, and how many jobs, waiting or not, belong to it."""

    __slots__ = ("job_class", "keys", "members", "shape")

    def __init__(self, job_class: JobClass, shape: int) -> None:
        self.job_class = job_class
        self.shape = shape  # the same for classes that ask for the same: quicker than comparing
        self.keys: list[QueueKey] | SortedList[QueueKey] = []  # in order; the latter once many
        self.members = 0


class _Known(NamedTuple):
    """The class of jobs with this very request and these options, which live as long as it."""

    queue: ClassQueue
    request: Request
    options: Options


class WaitingQueue:
    """Eligible jobs by class, oldest first. Nothing in it is held, asleep or dependent."""

    def __init__(self) -> None:
        self._classes: dict[JobClass, ClassQueue] = {}
        self._open: dict[int, ClassQueue] = {}  # those in which somebody waits
        self._known: dict[tuple[object, ...], _Known] = {}
        self.size = 0  # how many wait
        self._shapes: dict[Request, int] = {}
        self._last_shape = 0

    def __len__(self) -> int:
        return self.size

    def join(self, job_class: JobClass, count: int = 1) -> ClassQueue:
        """The class of jobs that enter the state; all its jobs share the one object."""
        queue = self._classes.get(job_class)
        if queue is None:
            shape = self._shape_of(job_class.request)
            queue = self._classes[job_class] = ClassQueue(job_class, shape)
        queue.members += count
        return queue

    def queue_of(self, job: Job, level: int = 0) -> ClassQueue:
        """As `join(class_of(job))`, without working the class out again for jobs that share their
        request and options with one that came before."""
        if job.array is not None or level:
            return self.join(class_of(job, level))
        key = (job.tenant_id, job.queue, job.priority, id(job.request), id(job.options))
        known = self._known.get(key)
        if known is not None and known.queue.members:
            known.queue.members += 1
            return known.queue
        queue = self.join(class_of(job))
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = _Known(queue, job.request, job.options)
        return queue

    def _shape_of(self, request: Request) -> int:
        shape = self._shapes.get(request)
        if shape is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()  # then some that are alike no longer know it
            shape = self._last_shape = self._last_shape + 1
            self._shapes[request] = shape
        return shape

    def leave(self, queue: ClassQueue) -> None:
        """A job of the class is over; a class without jobs is forgotten."""
        queue.members -= 1
        if not queue.members:
            del self._classes[queue.job_class]

    def add_all(self, queue: ClassQueue, keys: list[QueueKey]) -> None:
        """As `add` for each of them, in much less time where they are many."""
        if not keys:
            return
        known = queue.keys
        if isinstance(known, list) and len(known) + len(keys) <= _MOST_LISTED:
            known += keys
            known.sort()
        else:
            if isinstance(known, list):
                known = queue.keys = SortedList(known)
            known.update(keys)
        self._open[id(queue)] = queue
        self.size += len(keys)

    def add(self, queue: ClassQueue, submitted_at: int, job_id: JobId) -> None:
        keys, key = queue.keys, (submitted_at, job_id)
        self.size += 1
        if not isinstance(keys, list):
            keys.add(key)
        elif not keys:
            self._open[id(queue)] = queue
            keys.append(key)
        else:
            insort(keys, key)
            if len(keys) > _MOST_LISTED:
                queue.keys = SortedList(keys)

    def discard(self, queue: ClassQueue, submitted_at: int, job_id: JobId) -> None:
        keys, key = queue.keys, (submitted_at, job_id)
        if isinstance(keys, list):
            at = bisect_left(keys, key)
            if keys[at] != key:
                raise InvariantBroken(f"job {job_id} does not wait in its class")
            del keys[at]
        else:
            keys.remove(key)
        self.size -= 1
        if not keys:
            del self._open[id(queue)]
            queue.keys = []

    def step(self, by: int) -> None:
        """The clock was set, and with it when each job came; their order stays."""
        for queue in self._open.values():
            moved = [(at + by, job_id) for at, job_id in queue.keys]
            queue.keys = moved if isinstance(queue.keys, list) else SortedList(moved)

    def all_classes(self) -> Iterator[ClassQueue]:
        """Also those whose jobs all run, are held or sleep."""
        return iter(self._classes.values())

    def members(self, tenant_id: TenantId, queue: str) -> int:
        """How many jobs of a tenant's queue are not over, waiting or not."""
        return sum(
            found.members
            for found in self._classes.values()
            if found.job_class.tenant_id == tenant_id and found.job_class.queue == queue
        )

    def classes(self) -> Iterator[ClassQueue]:
        """The classes in which somebody waits."""
        return iter(self._open.values())
