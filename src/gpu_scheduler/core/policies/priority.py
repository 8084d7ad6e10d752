"""Priority, raised by one for each full `aging_ms` of waiting, so that nobody waits for ever."""

from dataclasses import dataclass
from typing import ClassVar

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import JobClass
from gpu_scheduler.core.ledger import TenantUse
from gpu_scheduler.core.policy import SortKey


@dataclass(frozen=True, slots=True)
class PriorityWithAging:
    name: ClassVar[str] = "priority"

    aging_ms: int = 60_000

    def share(self, use: TenantUse) -> int:
        return 0  # whoever has how much, the key alone decides

    def sort_key(self, job_class: JobClass, submitted_at: int, job_id: JobId, now: int) -> SortKey:
        # Floor division, also below zero: a job dated in the future ranks under its priority.
        effective = job_class.priority + (now - submitted_at) // self.aging_ms
        return (-effective, submitted_at, job_id)
