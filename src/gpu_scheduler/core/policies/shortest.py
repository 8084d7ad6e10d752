"""The least GPU time first, by the time limit; who does not say how long comes last.

Nobody is passed over for ever: who has waited longer than the bound comes before all others, the
oldest first.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import JobClass
from gpu_scheduler.core.ledger import TenantUse
from gpu_scheduler.core.policy import SortKey, Standing
from gpu_scheduler.core.state import State
from gpu_scheduler.core.tenant import TenantQueue

_OVERDUE: Final = -1
_UNKNOWN: Final = 1 << 80  # more than any limit times any number of GPUs


@dataclass(frozen=True, slots=True)
class ShortestOrder:
    is_flat: ClassVar[bool] = True

    now: int
    bound_ms: int

    def standing(self, use: TenantUse, user: str) -> Standing:
        return (0, 0)  # whoever has how much, the key alone decides

    def sort_key(
        self, job_class: JobClass, queue: TenantQueue | None, submitted_at: int, job_id: JobId
    ) -> SortKey:
        if self.now - submitted_at > self.bound_ms:
            return (_OVERDUE, submitted_at, job_id)
        limit = job_class.time_limit_ms
        length = _UNKNOWN if limit is None else limit * job_class.request.gpu_millis
        return (length, submitted_at, job_id)


@dataclass(frozen=True, slots=True)
class Shortest:
    name: ClassVar[str] = "shortest"

    bound_ms: int = 3_600_000

    def at(self, state: State, now: int) -> ShortestOrder:
        return ShortestOrder(now, self.bound_ms)
