"""Priority, raised by `aging_step` for each full `aging_ms` of waiting, so that nobody waits for
ever, and by what a deadline or a wait target makes urgent.
"""

from dataclasses import dataclass
from typing import ClassVar

from tgpu.core.accounting.sla import urgency
from tgpu.core.capacity.ledger import TenantUse
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import JobClass
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.policies.slots import SortKey, Standing
from tgpu.core.state.cluster_state import State


@dataclass(frozen=True, slots=True)
class PriorityOrder:
    is_flat: ClassVar[bool] = True

    now: int
    aging_ms: int
    aging_step: int = 1

    def standing(self, use: TenantUse, user: str) -> Standing:
        return (0, 0)  # whoever has how much, the key alone decides

    def sort_key(
        self, job_class: JobClass, queue: TenantQueue | None, submitted_at: int, job_id: JobId
    ) -> SortKey:
        # Floor division, also below zero: a job dated in the future ranks under its priority.
        effective = (
            job_class.priority + (self.now - submitted_at) // self.aging_ms * self.aging_step
        )
        if queue is not None or job_class.deadline_at is not None:
            effective += urgency(job_class, queue, submitted_at, self.now)
        return (-effective, submitted_at, job_id)


@dataclass(frozen=True, slots=True)
class PriorityWithAging:
    name: ClassVar[str] = "priority"

    aging_ms: int = 60_000
    aging_step: int = 1

    def at(self, state: State, now: int) -> PriorityOrder:
        return PriorityOrder(now, self.aging_ms, self.aging_step)
