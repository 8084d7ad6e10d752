"""The tenant furthest below its share first; inside a tenant, by priority with ageing."""

from dataclasses import dataclass
from typing import ClassVar, Final

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import JobClass
from gpu_scheduler.core.ledger import TenantUse
from gpu_scheduler.core.policy import SortKey, Standing
from gpu_scheduler.core.state import State
from gpu_scheduler.core.tenant import TenantQueue

# Scaled integers, not floats: equal shares must compare equal everywhere. A millionth of a GPU for
# the smallest weight is finer than any request.
_SCALE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class FairShareOrder:
    now: int
    aging_ms: int

    def standing(self, use: TenantUse, user: str) -> Standing:
        return (use.gpu_millis * _SCALE // use.tenant.weight_millis, 0)

    def sort_key(
        self, job_class: JobClass, queue: TenantQueue | None, submitted_at: int, job_id: JobId
    ) -> SortKey:
        effective = job_class.priority + (self.now - submitted_at) // self.aging_ms
        return (-effective, submitted_at, job_id)


@dataclass(frozen=True, slots=True)
class FairShare:
    name: ClassVar[str] = "fairshare"

    aging_ms: int = 60_000

    def at(self, state: State, now: int) -> FairShareOrder:
        return FairShareOrder(now, self.aging_ms)
