"""How a request reaches the service, and only what its caller may see of it.

What belongs to a tenant outside the caller's scope is answered exactly like what does not exist.
"""

from dataclasses import replace

from starlette.requests import HTTPConnection

from tgpu.api.auth.rules import principal_of
from tgpu.api.rest.problem import Problem
from tgpu.api.rest.standing import check_priority
from tgpu.core.ids import JobId, TenantId
from tgpu.core.ledger import TenantUse
from tgpu.core.lifecycle import JobState
from tgpu.service.audit import concerns
from tgpu.service.identity import Permission, Principal, unknown_tenant
from tgpu.service.jobs import not_found
from tgpu.service.run_as import as_account
from tgpu.service.service import Service
from tgpu.service.submission import Submission
from tgpu.service.tenants import no_tenant, queues_of, tenant_use, usage_total
from tgpu.store.api import JobQuery, StoredJob, StoreUnavailable


def service_of(request: HTTPConnection) -> Service:
    """The service of this app; 503 until it has loaded what it knows."""
    service = request.app.state.service
    if not isinstance(service, Service):
        raise Problem(
            503, "SERVICE_NOT_READY", "the service is still starting; try again in a moment"
        )
    return service


def caller_of(request: HTTPConnection) -> Principal:
    return principal_of(request)


async def visible_job(service: Service, caller: Principal, name: str) -> StoredJob:
    """The job of that name, `last` being the caller's newest. NotFound where it is not theirs."""
    job_id = await _resolve(service, caller, name)
    stored = await service.store.job(job_id)
    if stored is None or not caller.sees(stored.job.tenant_id):
        raise not_found(job_id)
    return stored


async def visible_job_id(service: Service, caller: Principal, name: str) -> JobId:
    """Its id, for those who are about to change it: that tells them if it is not there."""
    if caller.tenants is None:
        job_id = await service.resolve(name)
    else:
        job_id = (await visible_job(service, caller, name)).job.job_id
    concerns(job_id)
    return job_id


async def live_job_id(service: Service, caller: Principal, name: str) -> JobId:
    """The same of a job that may be running, also while the store cannot be read."""
    try:
        return await visible_job_id(service, caller, name)
    except StoreUnavailable:
        entry = service.state.entry(JobId(name))
        if entry is None or not caller.sees(entry.job.tenant_id):
            raise
        concerns(name, entry.job.tenant_id)
        return entry.job.job_id


def visible_tenant(service: Service, caller: Principal, tenant_id: str) -> TenantUse:
    """NotFound where it is not one of the caller's."""
    if not caller.sees(tenant_id):
        raise no_tenant(tenant_id)
    return tenant_use(service.state, TenantId(tenant_id))


def visible_tenants(service: Service, caller: Principal) -> list[TenantUse]:
    """By id."""
    uses = service.state.ledger.tenants.values()
    return sorted(
        (use for use in uses if caller.sees(use.tenant.tenant_id)),
        key=lambda use: use.tenant.tenant_id,
    )


def visible_counts(service: Service, caller: Principal) -> dict[JobState, int]:
    """How many jobs the caller may see, by state."""
    state = service.state
    if caller.tenants is None:
        return {name: state.counts[name] for name in JobState}
    counts = dict.fromkeys(JobState, 0)
    for entry in state.placed():
        if caller.sees(entry.job.tenant_id):
            counts[entry.progress.state] += 1
    placed = sum(counts.values())
    for use in visible_tenants(service, caller):
        used = usage_total(state, use.tenant.tenant_id)
        counts[JobState.COMPLETED] += used.completed
        counts[JobState.FAILED] += used.failed
        counts[JobState.CANCELLED] += used.cancelled
        for queue in queues_of(state, use.tenant.tenant_id):
            counts[JobState.PENDING] += state.waiting.members(queue.tenant_id, queue.name)
    counts[JobState.PENDING] -= placed
    return counts


def check_tenant(service: Service, caller: Principal, tenant_id: str) -> None:
    """Before a job is queued: InvalidRequest names the tenants there are, for this caller."""
    tenants = service.state.ledger.tenants
    if caller.tenants is not None and not (caller.sees(tenant_id) and tenant_id in tenants):
        raise unknown_tenant(caller, tenant_id, tenants)


async def checked_submission(
    service: Service, caller: Principal, submission: Submission
) -> Submission:
    """What the caller may queue, in their own name."""
    check_tenant(service, caller, submission.tenant_id)
    check_priority(service, caller, submission.tenant_id, submission.priority)
    detail = replace(submission.detail, owner=caller.owner)
    if service.engine is not None and detail.argv:  # a lease runs nothing
        detail = as_account(detail, await service.run_as.of_caller(caller, submission.tenant_id))
    if (name := shown_name(caller)) is not None:
        detail = replace(detail, user=name)
    return replace(submission, detail=detail, sees=caller.tenants)


def shown_name(caller: Principal) -> str | None:
    """The user that a caller's jobs name; None: whom they say, for those who are trusted to."""
    return None if caller.may(Permission.SEE_CLUSTER) else caller.name


async def _resolve(service: Service, caller: Principal, name: str) -> JobId:
    return await newest_of(service, caller) if name == "last" else JobId(name)


async def newest_of(service: Service, caller: Principal) -> JobId:
    """The newest job that the caller sees. NotFound where there is none."""
    if caller.tenants is None:
        return await service.resolve("last")
    newest = await service.store.jobs(JobQuery(tenant_ids=caller.scope, limit=1))
    if not newest:
        raise not_found("last")
    return newest[0].job.job_id
