"""First come, first served, whatever the priority."""

from dataclasses import dataclass
from typing import ClassVar

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import JobClass
from gpu_scheduler.core.ledger import TenantUse
from gpu_scheduler.core.policy import SortKey, Standing
from gpu_scheduler.core.state import State
from gpu_scheduler.core.tenant import TenantQueue


@dataclass(frozen=True, slots=True)
class Fifo:
    is_flat: ClassVar[bool] = True

    name: ClassVar[str] = "fifo"

    def at(self, state: State, now: int) -> "Fifo":
        return self

    def standing(self, use: TenantUse, user: str) -> Standing:
        return (0, 0)  # whoever has how much, the key alone decides

    def sort_key(
        self, job_class: JobClass, queue: TenantQueue | None, submitted_at: int, job_id: JobId
    ) -> SortKey:
        return (0, submitted_at, job_id)
