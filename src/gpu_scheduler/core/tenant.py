"""Who jobs belong to, and what each may have at once. A limit that is not set does not limit."""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gpu_scheduler.core.ids import TenantId


class Tier(StrEnum):
    """How important a tenant's jobs are unless they say otherwise."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


# The lower end of each band of priorities, see docs/glossary.md.
TIER_PRIORITY: Final = MappingProxyType(
    {Tier.LOW: 100, Tier.NORMAL: 500, Tier.HIGH: 1000, Tier.URGENT: 2000}
)


@dataclass(frozen=True, slots=True)
class Tenant:
    tenant_id: TenantId
    max_gpu_millis: int | None = None
    max_gpu_millis_by_type: tuple[tuple[str, int], ...] = ()
    max_gpu_mem_mib: int | None = None
    max_cpu_millis: int | None = None
    max_mem_mib: int | None = None
    max_running_jobs: int | None = None
    name: str = ""
    tier: Tier = Tier.NORMAL
    weight_millis: int = 1000  # of the fair share, in thousandths
    allow_preemption: bool = True  # whether its jobs may be preempted
    active: bool = True  # an inactive tenant submits and starts nothing
    enforce_quota: bool = True  # off: the limits are shown, and do not limit
    created_at: int = 0

    def max_of_type(self, gpu_type: str) -> int | None:
        for name, millis in self.max_gpu_millis_by_type:
            if name == gpu_type:
                return millis
        return None


@dataclass(frozen=True, slots=True)
class TenantQueue:
    """A queue of a tenant. Every tenant has one named `default`, whether it was made or not."""

    tenant_id: TenantId
    name: str
    priority: int = 0  # jobs of a higher queue come first, whatever their own priority
    max_running_jobs: int | None = None
    enabled: bool = True  # a disabled queue takes jobs and starts none
    created_at: int = 0
