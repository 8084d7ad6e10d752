"""First come, first served, whatever the priority."""

from dataclasses import dataclass
from typing import ClassVar

from tgpu.core.capacity.ledger import TenantUse
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import JobClass
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.policies.slots import SortKey, Standing
from tgpu.core.state.cluster_state import State


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
