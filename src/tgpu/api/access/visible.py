"""What a caller may see of the service, and what they may ask of it.

What belongs to a tenant outside the caller's scope is answered exactly like what does not exist.
"""

from collections.abc import Iterator
from dataclasses import replace

from tgpu.api.access.claims import check_priority
from tgpu.core.errors import Forbidden, NotFound
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import name_of
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.reasons import Reason
from tgpu.core.model.tenant import Tenant
from tgpu.peers.users import user_name
from tgpu.service.commands.jobs import not_found
from tgpu.service.commands.submission import Submission
from tgpu.service.identity.caller import Permission, Principal, Role
from tgpu.service.identity.ownership import SEES_ALL, Action, Look, Sight
from tgpu.service.identity.run_as import as_account
from tgpu.service.identity.tenant_choice import chosen_tenant
from tgpu.service.reads.cluster_reads import ClusterReads
from tgpu.service.reads.tenants import no_tenant
from tgpu.service.recording.audit import concerns
from tgpu.service.service import Service
from tgpu.store.api import JobQuery, StoredJob, StoreUnavailable


async def visible_job(
    service: Service, caller: Principal, name: str, action: Action = Action.SEE
) -> StoredJob:
    """The job of that name, `last` being the caller's newest, for one who may do that to it.

    NotFound where it is not theirs to see, else Forbidden. Without its environment where that is
    not for them.
    """
    job_id = await _resolve(service, caller, name)
    stored = await service.store.job(job_id)
    if stored is None:
        raise await _no_single_job(service, caller, job_id)
    try:
        service.reads.check(caller, action, stored.job)
    except Forbidden:
        concerns(job_id, stored.job.tenant_id)  # who tried it is on record with what
        raise
    return as_seen(service, caller, stored)


def as_seen(service: Service, caller: Principal, stored: StoredJob) -> StoredJob:
    """As a list or an answer shows it to this caller."""
    has_variables = stored.detail.env or stored.detail.secrets
    if not has_variables or service.reads.permits(caller, Action.ENVIRONMENT, stored.job):
        return stored
    return replace(stored, detail=replace(stored.detail, env=(), secrets=()))


def sight(service: Service, caller: Principal) -> Sight:
    return service.reads.sight(caller)


def looking(service: Service, caller: Principal, *tenant_ids: str) -> Look:
    """The same for streams, of these tenants only where some are named."""
    if _looks_after_all(caller) and not tenant_ids:
        return lambda: SEES_ALL
    return lambda: service.reads.sight(caller).within(*tenant_ids)


def visible_query(service: Service, caller: Principal, query: JobQuery) -> JobQuery:
    """The same question, about the jobs that the caller sees."""
    return service.reads.sight(caller).narrowed(query)


def waiting_reason(service: Service, caller: Principal, stored: StoredJob) -> Reason | None:
    """Why it waits, if it does, with as many names as the caller may see."""
    if stored.progress.state is not JobState.PENDING:
        return None  # as it was read: by now it may be something else
    return service.reason(stored.job.job_id, service.reads.sight(caller))


async def visible_job_id(service: Service, caller: Principal, name: str, action: Action) -> JobId:
    """Its id, for those who are about to change it: that tells them if it is not there."""
    if _looks_after_all(caller):
        job_id = await service.resolve(name)
    else:
        job_id = (await visible_job(service, caller, name, action)).job.job_id
    concerns(job_id)
    return job_id


async def live_job_id(service: Service, caller: Principal, name: str, action: Action) -> JobId:
    """The same of a job that may be running, also while the store cannot be read."""
    try:
        return await visible_job_id(service, caller, name, action)
    except StoreUnavailable:
        live = service.reads.job(JobId(name))
        if live is None or not service.reads.permits(caller, action, live.job):
            raise
        concerns(name, live.job.tenant_id)
        return live.job.job_id


def visible_tenant(service: Service, caller: Principal, tenant_id: str) -> Tenant:
    """NotFound where it is not one of the caller's."""
    if not caller.sees(tenant_id):
        raise no_tenant(tenant_id)
    return service.reads.tenant(tenant_id)


def visible_tenants(service: Service, caller: Principal) -> list[Tenant]:
    """By id."""
    return [tenant for tenant in service.reads.tenants() if caller.sees(tenant.tenant_id)]


def visible_counts(service: Service, caller: Principal) -> dict[JobState, int]:
    """How many jobs there are for the caller, by state: of those not over, the ones they see.

    What is over is counted for the whole tenant, as its usage is, which members may read.
    """
    reads = service.reads
    if _looks_after_all(caller):
        return reads.job_counts()
    counts = dict.fromkeys(JobState, 0)
    seen = reads.sight(caller)
    for job, progress in reads.placed_jobs():
        if seen.sees_job(job):
            counts[progress.state] += 1
    placed = sum(counts.values())
    for tenant in visible_tenants(service, caller):
        used = reads.usage(tenant.tenant_id)
        counts[JobState.COMPLETED] += used.completed
        counts[JobState.FAILED] += used.failed
        counts[JobState.CANCELLED] += used.cancelled
    counts[JobState.PENDING] += sum(_live(reads, seen)) - placed
    return counts


def _live(reads: ClusterReads, seen: Sight) -> Iterator[int]:
    """Jobs that are not over, of each queue; of each class where not all of them are seen."""
    for queue in reads.queues():
        if queue.tenant_id not in seen.own_only and seen.sees(queue.tenant_id, ""):
            yield reads.queue_live_count(queue.tenant_id, queue.name)
    if seen.own_only:
        for job_class, jobs in reads.class_counts():
            tenant_id = job_class.tenant_id
            if tenant_id in seen.own_only and seen.sees(tenant_id, job_class.user):
                yield jobs


def check_tenant(service: Service, caller: Principal, tenant_id: str) -> None:
    """Before a job is queued: InvalidRequest names the tenants there are, for this caller."""
    is_there = caller.sees(tenant_id) and tenant_id in service.reads.tenant_ids
    if caller.tenants is not None and not is_there:
        tenant_for(service, caller, tenant_id)


def tenant_for(service: Service, caller: Principal, said: str | None) -> TenantId:
    """The tenant that a call is for, which need not be named where there is one only.

    Raises InvalidRequest or Forbidden, with those that the caller may use.
    """
    if said is not None and caller.tenants is None:
        return TenantId(said)  # who sees all is told by those who look for it
    return chosen_tenant(
        caller, said, service.reads.tenant_ids, lambda: no_tenant_advice(service, caller)
    )


def no_tenant_advice(service: Service, caller: Principal) -> str:
    """For somebody without a tenant: what there is, and what to ask of whom."""
    match caller.kind:
        case "uid":
            owner = user_name(service.run_as.rules.own_uid)
            return service.run_as.users.advice(caller.name, caller.how, owner)
        case "key":
            ask = "ask an admin for one that is bound to a tenant (tgpu keys create --tenant)"
            return f"this API key ({caller.name}) is not bound to an existing tenant; {ask}"
        case _:
            ask = "ask whoever gives out tokens to list a tenant in it (auth.jwt_tenants_claim)"
            return f"{caller.name} belongs to no existing tenant; {ask}"


async def checked_submission(
    service: Service, caller: Principal, submission: Submission
) -> Submission:
    """What the caller may queue, in their own name."""
    tenant_id = tenant_for(service, caller, submission.tenant_id or None)
    submission = replace(submission, tenant_id=tenant_id)
    check_priority(service, caller, submission.tenant_id, submission.priority)
    detail = replace(submission.detail, owner=caller.owner)
    if service.engine is not None and detail.argv:  # a lease runs nothing
        detail = as_account(detail, await service.run_as.of_caller(caller, submission.tenant_id))
    if (name := shown_name(caller)) is not None:
        detail = replace(detail, user=name)
    return replace(submission, detail=detail, sight=sight(service, caller))


def shown_name(caller: Principal) -> str | None:
    """The user that a caller's jobs name; None: whom they say, for those who are trusted to."""
    return None if caller.may(Permission.SEE_CLUSTER) else caller.user


def _looks_after_all(caller: Principal) -> bool:
    return caller.tenants is None and caller.role in (Role.ADMIN, Role.OPERATOR)


async def _no_single_job(service: Service, caller: Principal, name: JobId) -> NotFound:
    """Who names a whole array where only one job will do is told what there is."""
    query = visible_query(service, caller, JobQuery(array_id=name, limit=1))
    found = await service.store.jobs(query)
    if not found:
        return not_found(name)
    remedy = f"{name} is an array: name one of its jobs, such as {found[0].job.job_id}"
    return NotFound("job", name, remedy)


async def _resolve(service: Service, caller: Principal, name: str) -> JobId:
    return await newest_of(service, caller) if name == "last" else JobId(name)


async def newest_of(service: Service, caller: Principal) -> JobId:
    """The newest job that the caller sees; of those who submit, the newest of their own: what
    others submitted since is not what they mean. NotFound where there is none."""
    if _looks_after_all(caller):
        return await service.resolve("last")
    query = JobQuery(user=caller.user if caller.role is Role.USER else "", limit=1)
    newest = await service.store.jobs(visible_query(service, caller, query))
    if not newest:
        raise not_found("last")
    return name_of(newest[0].job)
