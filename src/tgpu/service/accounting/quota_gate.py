"""Asks a quota provider of another package before a job starts, and tells it when one ends.

The local quota needs no gate: it is part of every decision.
"""

from collections.abc import Callable, Collection
from typing import Final, TypeVar

import structlog
from msgspec.structs import replace

from tgpu.core.capacity.ledger import TenantUse
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.plan import Plan
from tgpu.core.model.units import CPU, GPU
from tgpu.core.state.cluster_state import State
from tgpu.quota import JobTypeEnum, LocalQuotaProvider, QuotaInfo, QuotaProvider, Resources

T = TypeVar("T")

_log = structlog.get_logger("gpu_scheduler.quota")

_GIB = 1024  # MiB
# Each round closes the classes that were refused and plans again, so that others get the GPUs they
# would have had. What is still refused after the last one waits for the next cycle.
_ROUNDS: Final = 8


class QuotaGate:
    """A provider that fails counts as one that refuses; `trouble` says how it failed."""

    def __init__(self, provider: QuotaProvider) -> None:
        self.name = provider.name or type(provider).__name__
        self.refused: frozenset[JobClass] = frozenset()  # in the last cycle
        self._troubles: dict[str, str] = {}  # by what was asked of it
        self._provider = provider
        self._is_local = isinstance(provider, LocalQuotaProvider)
        self._taken: dict[JobId, Job] = {}

    @property
    def trouble(self) -> str | None:
        """How the provider failed when it was last asked; None when all is well."""
        return next(iter(self._troubles.values()), None)

    def plan(self, state: State, decide: Callable[[Collection[JobClass]], Plan]) -> Plan:
        """What `decide` plans, without the starts that the provider does not allow.

        `decide` is asked again without the classes that were refused.
        """
        if self._is_local:
            return decide(frozenset())
        refused: set[JobClass] = set()
        asked: set[JobId] = set()
        plan = decide(refused)
        for _ in range(_ROUNDS):
            before = len(refused)
            self._ask(state, plan, asked, refused)
            if len(refused) == before:
                break
            plan = decide(refused)
            for job_id in sorted(asked.difference(start.job_id for start in plan.starts)):
                asked.discard(job_id)
                self.give(job_id)
        self.refused = frozenset(refused)
        starts = tuple(start for start in plan.starts if start.job_id in asked)
        return replace(plan, starts=starts)

    def take(self, job: Job) -> bool:
        """Count a job as started, if the provider allows it."""
        if self._is_local:
            return True
        ask = self._provider.allocate_quota
        taken = self._call(
            "allocate", lambda: bool(ask(job.tenant_id, _resources(job), _kind(job))), False
        )
        if taken:
            self._taken[job.job_id] = job
        return taken

    def give(self, job_id: JobId) -> None:
        """A job gave its GPUs back, or its start could not be recorded."""
        job = self._taken.pop(job_id, None)
        if job is not None:
            tell = self._provider.release_quota
            self._call("release", lambda: tell(job.tenant_id, _resources(job), _kind(job)), None)

    def quota(self, project_id: str) -> QuotaInfo | None:
        """What the provider says of a project; None where that is nothing."""
        return self._call("get", lambda: self._provider.get_quota(project_id), None)

    def _ask(self, state: State, plan: Plan, asked: set[JobId], refused: set[JobClass]) -> None:
        for start in plan.starts:
            entry = state.entry(start.job_id)
            if entry is None or start.job_id in asked:
                continue
            job_class = entry.queue.job_class
            if job_class in refused:
                continue
            if self.take(entry.job):
                asked.add(start.job_id)
            else:
                refused.add(job_class)

    def _call(self, what: str, ask: Callable[[], T], otherwise: T) -> T:
        try:
            answer = ask()
        except Exception as error:  # another package's code may fail in any way
            trouble = f"{type(error).__name__}: {error}"
            if trouble != self._troubles.get(what):  # once, not in every cycle
                _log.error("the quota provider failed", provider=self.name, problem=trouble)
            self._troubles[what] = trouble
            return otherwise
        self._troubles.pop(what, None)
        return answer


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
