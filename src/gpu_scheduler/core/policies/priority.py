"""Priority, raised by one for each full `aging_ms` of waiting, so that nobody waits for ever."""

from dataclasses import dataclass
from typing import ClassVar

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import JobClass
from gpu_scheduler.core.ledger import TenantUse
from gpu_scheduler.core.policy import SortKey, Standing
from gpu_scheduler.core.state import State
from gpu_scheduler.core.tenant import TenantQueue


@dataclass(frozen=True, slots=True)
class PriorityOrder:
    now: int
    aging_ms: int

    def standing(self, use: TenantUse, user: str) -> Standing:
        return (0, 0)  # whoever has how much, the key alone decides

    def sort_key(
        self, job_class: JobClass, queue: TenantQueue | None, submitted_at: int, job_id: JobId
    ) -> SortKey:
        # Floor division, also below zero: a job dated in the future ranks under its priority.
        effective = job_class.priority + (self.now - submitted_at) // self.aging_ms
        return (-effective, submitted_at, job_id)


@dataclass(frozen=True, slots=True)
class PriorityWithAging:
    name: ClassVar[str] = "priority"

    aging_ms: int = 60_000

    def at(self, state: State, now: int) -> PriorityOrder:
        return PriorityOrder(now, self.aging_ms)
