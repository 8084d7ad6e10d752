"""First come, first served, whatever the priority."""

from dataclasses import dataclass
from typing import ClassVar

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import JobClass
from gpu_scheduler.core.ledger import TenantUse
from gpu_scheduler.core.policy import SortKey


@dataclass(frozen=True, slots=True)
class Fifo:
    name: ClassVar[str] = "fifo"

    def share(self, use: TenantUse) -> int:
        return 0  # whoever has how much, the key alone decides

    def sort_key(self, job_class: JobClass, submitted_at: int, job_id: JobId, now: int) -> SortKey:
        return (0, submitted_at, job_id)
