"""Refuses what could never start: over the tenant's quota, or larger than every node."""

from typing import Final

from gpu_scheduler.core.errors import InvalidRequest, QuotaExceeded
from gpu_scheduler.core.explain import never_reason
from gpu_scheduler.core.job import Job, JobClass
from gpu_scheduler.core.ledger import TenantUse
from gpu_scheduler.core.reasons import Reason, ReasonCode
from gpu_scheduler.core.stages.place import could_ever_hold
from gpu_scheduler.core.state import State
from gpu_scheduler.core.units import gpus_text


def refuse_what_never_fits(state: State, job: Job, job_class: JobClass) -> None:
    _check_quota(state.ledger.tenant(job.tenant_id), job_class)
    uses = list(state.ledger.nodes.values())
    if uses and not any(could_ever_hold(use.node, job_class) for use in uses):
        raise _too_large(never_reason(uses, job_class))


def _check_quota(use: TenantUse, job_class: JobClass) -> None:
    request, tenant = job_class.request, use.tenant
    checks: list[tuple[str, int, int | None, int, int]] = [
        ("GPUs", request.gpu_millis, tenant.max_gpu_millis, use.gpu_millis, 0),
        ("GPU memory MB", request.gpu_mem_mib, tenant.max_gpu_mem_mib, use.gpu_mem_mib, 1),
        ("CPU cores", request.cpu_millis, tenant.max_cpu_millis, use.cpu_millis, 0),
        ("memory MB", request.mem_mib, tenant.max_mem_mib, use.mem_mib, 1),
        ("concurrent jobs", 1, tenant.max_running_jobs, use.jobs, 1),
    ]
    if request.gpu_type is not None:
        limit = tenant.max_of_type(request.gpu_type)
        current = use.gpu_millis_by_type.get(request.gpu_type, 0)
        checks.append((f"{request.gpu_type} GPUs", request.gpu_millis, limit, current, 0))
    for what, requested, quota, current, is_plain in checks:
        if quota is not None and requested > quota:
            shown = [str(n) if is_plain else gpus_text(n) for n in (requested, quota, current)]
            raise QuotaExceeded(tenant.tenant_id, what, *shown)


_FIELDS: Final = {"gpus": "gpu_count", "cpu_millis": "cpu_cores", "memory_mib": "memory_mb"}


def _too_large(why: Reason) -> InvalidRequest:
    if why.code is ReasonCode.NO_SUCH_GPU:
        remedy = f"there is no such GPU here; there are: {why.fact('types')}"
        return InvalidRequest("gpu_type", why.fact("gpu_type"), remedy)
    resource = str(why.fact("resource"))
    requested, largest = int(why.fact("requested")), int(why.fact("largest"))
    if resource == "gpus":
        kind = f" {why.fact('gpu_type')}" if why.fact("gpu_type") else ""
        memory = int(why.fact("gpu_mem_mib"))
        with_memory = f" with that much memory ({memory} MB in all)" if memory else ""
        remedy = (
            f"at most {gpus_text(largest)}{kind} GPUs of one type{with_memory} are on one machine"
        )
        return InvalidRequest("gpu_count", gpus_text(requested), remedy)
    shown = gpus_text if resource == "cpu_millis" else str
    unit = "cores" if resource == "cpu_millis" else "MB"
    return InvalidRequest(
        _FIELDS[resource], shown(requested), f"the largest machine has {shown(largest)} {unit}"
    )
