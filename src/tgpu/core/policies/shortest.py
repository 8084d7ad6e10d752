"""Least GPU time first: as predicted, else by the time limit; jobs with neither come last.

Nobody is passed over for ever: who has waited longer than the bound comes before all others, the
oldest first.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from tgpu.core.capacity.ledger import TenantUse
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import JobClass
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.policies.slots import SortKey, Standing
from tgpu.core.state.cluster_state import State

# How long jobs of a class will run, in ms, at this instant; None where nobody can tell. The same
# for all of a cycle: the order must not change under it.
Predicted = Callable[[JobClass, int], int | None]

_OVERDUE: Final = -1
_UNKNOWN: Final = 1 << 80  # more than any limit times any number of GPUs


@dataclass(frozen=True, slots=True)
class ShortestOrder:
    is_flat: ClassVar[bool] = True

    now: int
    bound_ms: int
    predicted: Predicted | None = None

    def standing(self, use: TenantUse, user: str) -> Standing:
        return (0, 0)  # whoever has how much, the key alone decides

    def sort_key(
        self, job_class: JobClass, queue: TenantQueue | None, submitted_at: int, job_id: JobId
    ) -> SortKey:
        if self.now - submitted_at > self.bound_ms:
            return (_OVERDUE, submitted_at, job_id)
        length = self._length_ms(job_class)
        gpu_time = _UNKNOWN if length is None else length * job_class.request.gpu_millis
        return (gpu_time, submitted_at, job_id)

    def _length_ms(self, job_class: JobClass) -> int | None:
        length = None if self.predicted is None else self.predicted(job_class, self.now)
        return job_class.time_limit_ms if length is None else length


@dataclass(frozen=True, slots=True)
class Shortest:
    name: ClassVar[str] = "shortest"

    bound_ms: int = 3_600_000
    # None: by time limits alone.
    predicted: Predicted | None = field(default=None, compare=False)

    def at(self, state: State, now: int) -> ShortestOrder:
        return ShortestOrder(now, self.bound_ms, self.predicted)
