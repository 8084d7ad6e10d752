"""Whether limits allow a job to start, before a place is searched."""

from tgpu.core.admission.cohort import over_cohort_quota
from tgpu.core.capacity.ledger import Ledger, TenantUse
from tgpu.core.model.job import JobClass
from tgpu.core.model.reasons import Reason, ReasonCode, reason


def refuse(ledger: Ledger, job_class: JobClass) -> Reason | None:
    """The limit that stands in the way of one more job of this class; None lets it through."""
    if ledger.most_jobs is not None and ledger.jobs >= ledger.most_jobs:
        return reason(ReasonCode.SERVICE_CAP, running=ledger.jobs, limit=ledger.most_jobs)
    if job_class.array_id is not None and job_class.array_max is not None:
        running = ledger.array_running(job_class.tenant_id, job_class.array_id)
        if running >= job_class.array_max:
            return reason(ReasonCode.ARRAY_CAP, running=running, limit=job_class.array_max)
    use = ledger.tenant(job_class.tenant_id)
    if not use.tenant.active:
        return reason(ReasonCode.TENANT_INACTIVE, tenant=use.tenant.tenant_id)
    if ledger.over_budget and job_class.tenant_id in ledger.over_budget:
        return ledger.over_budget[job_class.tenant_id]
    refused = _queue_refuses(ledger, job_class) if ledger.queues else None
    if refused is None and use.limits_users and job_class.user:
        refused = over_user_limits(ledger, use, job_class)
    if refused is not None or not use.is_limited:
        return refused
    return _over_quota(ledger, use, job_class)


def over_user_limits(ledger: Ledger, use: TenantUse, job_class: JobClass) -> Reason | None:
    """What its user may have of the tenant, at once and today."""
    user, request = job_class.user, job_class.request
    limits = use.tenant.limits_of(user)
    checks = (
        ("gpus", request.gpu_millis, limits.max_gpu_millis, use.gpu_millis_by_user),
        ("jobs", 1, limits.max_running_jobs, use.jobs_by_user),
    )
    for resource, requested, limit, held in checks:
        current = held.get(user, 0)
        if limit is not None and requested and current + requested > limit:
            return reason(
                ReasonCode.USER_LIMIT,
                tenant=use.tenant.tenant_id,
                user=user,
                resource=resource,
                requested=requested,
                limit=limit,
                current=current,
            )
    return ledger.over_day.get((use.tenant.tenant_id, user))


def _queue_refuses(ledger: Ledger, job_class: JobClass) -> Reason | None:
    use = ledger.queue(job_class.tenant_id, job_class.queue)
    if use is None:
        return None
    names = {"queue": use.queue.name, "tenant": use.queue.tenant_id}
    if not use.queue.enabled:
        return reason(ReasonCode.QUEUE_DISABLED, **names)
    limit = use.queue.max_running_jobs
    if limit is not None and use.running >= limit:
        return reason(ReasonCode.QUEUE_CAP, **names, running=use.running, limit=limit)
    return None


def _over_quota(ledger: Ledger, use: TenantUse, job_class: JobClass) -> Reason | None:
    request, tenant = job_class.request, use.tenant
    if not tenant.enforce_quota:
        return None
    own_gpus = tenant.max_gpu_millis
    if tenant.cohort and tenant.shares_quota:
        refused = over_cohort_quota(ledger, use, request.gpu_millis)
        if refused is not None:
            return refused
        own_gpus = None  # it is one with what it may borrow
    limits: tuple[tuple[str, int, int | None, int], ...] = (
        ("gpus", request.gpu_millis, own_gpus, use.gpu_millis),
        ("gpu_memory_mib", request.gpu_mem_mib, tenant.max_gpu_mem_mib, use.gpu_mem_mib),
        ("cpu_millis", request.cpu_millis, tenant.max_cpu_millis, use.cpu_millis),
        ("memory_mib", request.mem_mib, tenant.max_mem_mib, use.mem_mib),
        ("jobs", 1, tenant.max_running_jobs, use.jobs),
    )
    for resource, requested, limit, current in limits:
        # Who asks for none of it is not in the way, even where a limit was lowered below its use.
        if limit is not None and requested and current + requested > limit:
            return _quota_reason(use, resource, requested, limit, current)
    if request.gpu_type is None:
        return None  # which type, and so which quota counts, is decided in `place`
    return over_type_quota(use, request.gpu_type, request.gpu_millis)


def over_type_quota(use: TenantUse, gpu_type: str, gpu_millis: int) -> Reason | None:
    limit = use.tenant.max_of_type(gpu_type) if use.tenant.enforce_quota else None
    current = use.gpu_millis_by_type.get(gpu_type, 0)
    if limit is None or current + gpu_millis <= limit:
        return None
    return _quota_reason(use, f"gpus:{gpu_type}", gpu_millis, limit, current)


def _quota_reason(
    use: TenantUse, resource: str, requested: int, limit: int, current: int
) -> Reason:
    return reason(
        ReasonCode.TENANT_QUOTA,
        tenant=use.tenant.tenant_id,
        resource=resource,
        requested=requested,
        limit=limit,
        current=current,
    )
