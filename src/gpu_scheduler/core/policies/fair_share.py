"""The tenant furthest below its share first; inside a tenant, by priority with ageing."""

from dataclasses import dataclass
from typing import ClassVar, Final

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import JobClass
from gpu_scheduler.core.ledger import TenantUse
from gpu_scheduler.core.policy import SortKey

# Scaled integers, not floats: equal shares must compare equal everywhere. A millionth of a GPU for
# the smallest weight is finer than any request.
_SCALE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class FairShare:
    name: ClassVar[str] = "fairshare"

    aging_ms: int = 60_000

    def share(self, use: TenantUse) -> int:
        return use.gpu_millis * _SCALE // use.tenant.weight_millis

    def sort_key(self, job_class: JobClass, submitted_at: int, job_id: JobId, now: int) -> SortKey:
        effective = job_class.priority + (now - submitted_at) // self.aging_ms
        return (-effective, submitted_at, job_id)
