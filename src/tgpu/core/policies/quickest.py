"""Jobs that will probably end soonest go first, judging by jobs submitted next to them.

Jobs of one class, submitted at different times, stand apart: of a sweep of which the first run and
run, the last are tried before the rest. Many short gangs of one kind go before everybody: alone
they would wait for ever for whole machines, and all of them for the same ones. Nobody is passed
over for ever: who has waited longer than the bound comes before all others, the oldest first.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

from tgpu.core.capacity.ledger import TenantUse
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import JobClass
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.model.units import GPU
from tgpu.core.policies.slots import SortKey, Standing
from tgpu.core.state.cluster_state import State
from tgpu.core.state.waiting_queue import ClassQueue


class RunTimeSource(Protocol):
    """The same for all of a cycle: the order must not change under it."""

    def length_ms(self, job_class: JobClass, submitted_at: int, now: int) -> int | None:
        """How long a job of a class submitted then will run; None where nobody can tell."""

    def begun_since(self, job_class: JobClass, submitted_at: int) -> int:
        """How many like those of the class, submitted since then, began."""


_OVERDUE: Final = -2
_CROWD: Final = -1
_UNKNOWN: Final = 1 << 62  # longer than any job

_TOGETHER_MS: Final = 30_000  # submitted within this: they stand together
_MOST_PARTS: Final = 64  # of a class; beyond that the oldest stand together
# A crowd: at least as many gangs as each has GPUs, submitted within an hour of those that wait,
# none of which should take longer than ten minutes.
_CROWD_SINCE_MS: Final = 3_600_000
_CROWD_LENGTH_MS: Final = 600_000


@dataclass(frozen=True, slots=True)
class QuickestOrder:
    is_flat: ClassVar[bool] = True

    now: int
    bound_ms: int
    run_times: RunTimeSource | None
    crowds: frozenset[JobClass] = frozenset()

    def standing(self, use: TenantUse, user: str) -> Standing:
        return (0, 0)  # whoever has how much, the key alone decides

    def sort_key(
        self, job_class: JobClass, queue: TenantQueue | None, submitted_at: int, job_id: JobId
    ) -> SortKey:
        if self.now - submitted_at > self.bound_ms:
            return (_OVERDUE, submitted_at, job_id)
        length = self._length_ms(job_class, submitted_at)
        if length is None:
            return (_UNKNOWN, submitted_at, job_id)
        if self.crowds and length <= _CROWD_LENGTH_MS and job_class in self.crowds:
            return (_CROWD, submitted_at, job_id)
        # Of equals the part submitted last: the others have waited for nothing better so far.
        first = _together(submitted_at) * _TOGETHER_MS
        return (length, submitted_at - 2 * first, job_id)

    def parts(self, queues: Iterable[ClassQueue]) -> Iterator[ClassQueue]:
        """Each class in parts of those that were submitted together."""
        for queue in queues:
            if self.run_times is None or len(queue.keys) == 1:
                yield queue
            else:
                yield from _parts(queue)

    def _length_ms(self, job_class: JobClass, submitted_at: int) -> int | None:
        if self.run_times is None:
            return job_class.time_limit_ms
        middle = _together(submitted_at) * _TOGETHER_MS + _TOGETHER_MS // 2
        return self.run_times.length_ms(job_class, middle, self.now)


def _together(submitted_at: int) -> int:
    return submitted_at // _TOGETHER_MS


def _parts(queue: ClassQueue) -> Iterator[ClassQueue]:
    """The newest first, each found by its end: what waits in between is not looked at."""
    keys = queue.keys
    end, parts = len(keys), 1
    while end:
        start = 0
        if parts < _MOST_PARTS:
            first = (_together(keys[end - 1][0]) * _TOGETHER_MS, JobId(""))
            start = bisect_left(keys, first, 0, end)
        if end - start == len(keys):
            yield queue
            return
        part = ClassQueue(queue.job_class, queue.shape)
        part.keys = keys[start:end]
        yield part
        end, parts = start, parts + 1


@dataclass(frozen=True, slots=True)
class Quickest:
    name: ClassVar[str] = "quickest"

    bound_ms: int = 14 * 86_400_000
    # None: by time limits alone.
    run_times: RunTimeSource | None = field(default=None, compare=False)

    def at(self, state: State, now: int) -> QuickestOrder:
        run_times = self.run_times
        crowds = frozenset[JobClass]()
        if run_times is not None:
            classes = state.waiting.classes()
            crowds = frozenset(queue.job_class for queue in classes if _is_crowd(queue, run_times))
        return QuickestOrder(now, self.bound_ms, run_times, crowds)


def _is_crowd(queue: ClassQueue, run_times: RunTimeSource) -> bool:
    request = queue.job_class.request
    if request.workers == 1:
        return False
    begun = run_times.begun_since(queue.job_class, queue.keys[0][0] - _CROWD_SINCE_MS)
    return (len(queue.keys) + begun) * GPU >= request.gpu_millis
