"""Asks a quota provider of another package before a job starts, and tells it when one ends.

The local quota needs no gate: it is part of every decision.
"""

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import Job
from gpu_scheduler.core.ledger import TenantUse
from gpu_scheduler.core.plan import Plan
from gpu_scheduler.core.state import State
from gpu_scheduler.core.units import CPU, GPU
from gpu_scheduler.quota import JobTypeEnum, LocalQuotaProvider, QuotaInfo, QuotaProvider, Resources

_GIB = 1024  # MiB


class QuotaGate:
    def __init__(self, provider: QuotaProvider) -> None:
        self.name = provider.name
        self._provider = provider
        self._is_local = isinstance(provider, LocalQuotaProvider)
        self._taken: dict[JobId, Job] = {}

    def admit(self, state: State, plan: Plan) -> Plan:
        """The plan without the starts that the provider does not allow."""
        if self._is_local or not plan.starts:
            return plan
        allowed = []
        for start in plan.starts:
            entry = state.entry(start.job_id)
            if entry is not None and self.take(entry.job):
                allowed.append(start)
        return Plan(tuple(allowed), plan.expired, plan.doomed)

    def take(self, job: Job) -> bool:
        if self._is_local:
            return True
        taken = self._provider.allocate_quota(job.tenant_id, _resources(job), _kind(job))
        if taken:
            self._taken[job.job_id] = job
        return taken

    def give(self, job_id: JobId) -> None:
        """A job gave its GPUs back, or its start could not be recorded."""
        job = self._taken.pop(job_id, None)
        if job is not None:
            self._provider.release_quota(job.tenant_id, _resources(job), _kind(job))


def quota_info(use: TenantUse) -> QuotaInfo:
    tenant = use.tenant
    return QuotaInfo(
        project_id=tenant.tenant_id,
        cpu_quota=_of(tenant.max_cpu_millis, CPU),
        memory_quota=_of(tenant.max_mem_mib, _GIB),
        gpu_quota=_of(tenant.max_gpu_millis, GPU),
        used_cpu=use.cpu_millis / CPU,
        used_memory=use.mem_mib / _GIB,
        used_gpu=use.gpu_millis / GPU,
        enforce_quota=tenant.enforce_quota,
    )


def _of(amount: int | None, unit: int) -> float | None:
    return None if amount is None else amount / unit


def _resources(job: Job) -> Resources:
    request = job.request
    return Resources(request.cpu_millis / CPU, request.mem_mib / _GIB, request.gpu_millis / GPU)


def _kind(job: Job) -> JobTypeEnum:
    return JobTypeEnum.LEASE if job.options.lease else JobTypeEnum.COMMAND
