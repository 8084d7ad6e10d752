"""The tenant furthest below its share first, then its user furthest below, then by priority.

What counts is GPU time of late (see `core/accounting/meter.py`) for each unit of weight; the users
of a tenant weigh alike. What somebody holds now counts for a while ahead, so that what this very
cycle starts counts too.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from tgpu.core.accounting.meter import Meters, Owner, look_ahead
from tgpu.core.accounting.sla import urgency
from tgpu.core.capacity.ledger import TenantUse
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import JobClass
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.policies.slots import SortKey, Standing
from tgpu.core.state.cluster_state import State


@dataclass(frozen=True, slots=True)
class FairShareOrder:
    is_flat: ClassVar[bool] = False

    now: int
    aging_ms: int
    aging_step: int
    meters: Meters
    ahead: int
    averages: dict[Owner, int] = field(default_factory=dict)  # as they were asked for

    def standing(self, use: TenantUse, user: str) -> Standing:
        tenant_id = use.tenant.tenant_id
        had = self._average((tenant_id, None)) + use.gpu_millis * self.ahead
        holds = use.gpu_millis_by_user.get(user, 0)
        return (
            had // use.tenant.weight_millis,
            self._average((tenant_id, user)) + holds * self.ahead,
        )

    def sort_key(
        self, job_class: JobClass, queue: TenantQueue | None, submitted_at: int, job_id: JobId
    ) -> SortKey:
        effective = (
            job_class.priority + (self.now - submitted_at) // self.aging_ms * self.aging_step
        )
        if queue is not None or job_class.deadline_at is not None:
            effective += urgency(job_class, queue, submitted_at, self.now)
        return (-effective, submitted_at, job_id)

    def _average(self, owner: Owner) -> int:
        if not self.meters.half_life_ms:
            return 0  # a point in time: only what they hold
        found = self.averages.get(owner)
        if found is None:
            found = self.averages[owner] = self.meters.average(owner, self.now)
        return found


@dataclass(frozen=True, slots=True)
class FairShare:
    name: ClassVar[str] = "fairshare"

    aging_ms: int = 60_000
    aging_step: int = 1

    def at(self, state: State, now: int) -> FairShareOrder:
        ahead = look_ahead(state.meters.half_life_ms)
        return FairShareOrder(now, self.aging_ms, self.aging_step, state.meters, ahead)
