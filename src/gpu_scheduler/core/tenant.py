"""Who jobs belong to, and what each may have at once. A limit that is not set does not limit."""

from dataclasses import dataclass

from gpu_scheduler.core.ids import TenantId


@dataclass(frozen=True, slots=True)
class Tenant:
    tenant_id: TenantId
    max_gpu_millis: int | None = None
    max_gpu_millis_by_type: tuple[tuple[str, int], ...] = ()
    max_gpu_mem_mib: int | None = None
    max_cpu_millis: int | None = None
    max_mem_mib: int | None = None
    max_running_jobs: int | None = None

    def max_of_type(self, gpu_type: str) -> int | None:
        for name, millis in self.max_gpu_millis_by_type:
            if name == gpu_type:
                return millis
        return None
