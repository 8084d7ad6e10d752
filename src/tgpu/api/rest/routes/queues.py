"""/api/v1/queues and quotas, and the scheduler's own info and trigger."""

import math

from fastapi import Request, Response

from tgpu.api.access.claims import check_queue_priority
from tgpu.api.access.visible import sight, tenant_for, visible_counts, visible_tenant
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.parameters import Name
from tgpu.api.rest.route import Router
from tgpu.api.translate.tenants import core_fields
from tgpu.api.translate.user_limits import user_list
from tgpu.core.errors import InvalidRequest, NotFound, quoted
from tgpu.core.model.ids import TenantId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.model.units import GPU, SECOND
from tgpu.core.policies import QUEUE_NAMES
from tgpu.service.identity.caller import Principal
from tgpu.service.service import Service
from tgpu.text.instants import utc_millis_text
from tgpu.wire.tenants_v1 import (
    QueueCreate,
    QueueModel,
    QueuePatch,
    QuotaModel,
    QuotaPatch,
    SchedulerInfo,
    TriggerAnswer,
    TriggerRequest,
)

router = Router(tags=["queues"])

_GIB = 1024  # MiB


@router.get("/api/v1/queues")
async def list_queues(request: Request, project_id: Name | None = None) -> list[QueueModel]:
    """The queues of a project, or all queues, highest priority first."""
    service = service_of(request)
    owner = None if project_id is None else TenantId(project_id)
    caller = caller_of(request)
    if owner is not None:
        visible_tenant(service, caller, owner)
    found = service.reads.queues(owner)
    return [_queue_model(service, queue) for queue in found if caller.sees(queue.tenant_id)]


@router.post("/api/v1/queues", status_code=201)
async def create_queue(
    request: Request, body: QueueCreate, project_id: Name | None = None
) -> QueueModel:
    """Create a queue of the project in the body, or else of `project_id`."""
    service = service_of(request)
    said = body.project_id or project_id
    if project_id and said != project_id:
        remedy = f"the body names another project, {quoted(said)}; name it once"
        raise InvalidRequest("project_id", project_id, remedy)
    tenant_id = TenantId(said) if said else tenant_for(service, caller_of(request), None)
    visible_tenant(service, caller_of(request), tenant_id)
    check_queue_priority(caller_of(request), body.priority)
    queue = await service.tenants.create_queue(
        tenant_id,
        body.name,
        priority=body.priority,
        max_running_jobs=body.max_concurrent_jobs,
        enabled=body.enabled,
        policy=_policy_name(body.policy),
        wait_target_ms=_wait_target(body.wait_target_seconds),
        idle_action=body.idle_action,
    )
    return _queue_model(service, queue)


@router.get("/api/v1/queues/quota/{project_id}")
async def get_quota(request: Request, project_id: Name) -> QuotaModel:
    """A project's quota and how much of it is in use."""
    service = service_of(request)
    visible_tenant(service, caller_of(request), project_id)
    return _quota_model(service, caller_of(request), TenantId(project_id))


@router.patch("/api/v1/queues/quota/{project_id}")
async def change_quota(request: Request, project_id: Name, body: QuotaPatch) -> QuotaModel:
    """Change a project's quota."""
    service = service_of(request)
    given = body.model_dump(exclude_unset=True)
    names = {"cpu_quota": "max_cpu_cores", "gpu_quota": "max_gpus"}
    fields = {names.get(name, name): value for name, value in given.items()}
    if "memory_quota" in fields:
        gibibytes = fields.pop("memory_quota")
        fields["max_memory_mb"] = None if gibibytes is None else math.floor(gibibytes * _GIB)
    await service.tenants.change(TenantId(project_id), core_fields(fields))
    return _quota_model(service, caller_of(request), TenantId(project_id))


@router.post("/api/v1/queues/quota/{project_id}/sync")
async def sync_quota(request: Request, project_id: Name) -> QuotaModel:
    """Read a project's quota again from its provider. Local quotas are always up to date."""
    return _quota_model(service_of(request), caller_of(request), TenantId(project_id))


@router.get("/api/v1/queues/{queue_id}")
async def get_queue(request: Request, queue_id: Name) -> QueueModel:
    """A queue by its id, `project:name`."""
    service = service_of(request)
    return _queue_model(service, service.reads.queue(*_visible(request, queue_id)))


@router.patch("/api/v1/queues/{queue_id}")
async def change_queue(request: Request, queue_id: Name, body: QueuePatch) -> QueueModel:
    """Change a queue's priority, cap, policy, wait target or idle action; enable or disable it."""
    service = service_of(request)
    changes = body.model_dump(exclude_unset=True)
    check_queue_priority(caller_of(request), changes.get("priority"))
    if "max_concurrent_jobs" in changes:
        changes["max_running_jobs"] = changes.pop("max_concurrent_jobs")
    if "policy" in changes:
        changes["policy"] = _policy_name(changes["policy"])
    if "wait_target_seconds" in changes:
        changes["wait_target_ms"] = _wait_target(changes.pop("wait_target_seconds"))
    queue = await service.tenants.change_queue(*_visible(request, queue_id), changes)
    return _queue_model(service, queue)


@router.delete("/api/v1/queues/{queue_id}", status_code=204)
async def remove_queue(request: Request, queue_id: Name) -> Response:
    """Remove an empty queue."""
    await service_of(request).tenants.remove_queue(*_visible(request, queue_id))
    return Response(status_code=204)


@router.get("/api/v1/jobs/scheduler/info")
async def scheduler_info(request: Request) -> SchedulerInfo:
    """Policy, quota provider, active queues and waiting jobs."""
    service = service_of(request)
    caller = caller_of(request)
    enabled = [
        queue for queue in service.reads.queues() if queue.enabled and caller.sees(queue.tenant_id)
    ]
    return SchedulerInfo(
        policy=service.settings.scheduling.policy.name,
        quota_provider=service.gate.name,
        active_queues=len(enabled),
        pending_jobs=visible_counts(service, caller)[JobState.PENDING],
    )


@router.post("/api/v1/jobs/scheduler/trigger")
async def trigger(request: Request, body: TriggerRequest | None = None) -> TriggerAnswer:
    """Run a scheduling cycle now. The numbers are those of one project if given."""
    service = service_of(request)
    owner = None if body is None or body.project_id is None else TenantId(body.project_id)
    if owner is not None:
        service.reads.tenant(owner)  # NotFound where there is none
    plan = await service.trigger()
    started = [service.reads.job(start.job_id) for start in plan.starts]
    mine = [live for live in started if live is not None and owner in (None, live.job.tenant_id)]
    return TriggerAnswer(
        scheduled_count=len(mine),
        remaining_pending=sum(
            service.reads.queue_count(queue.tenant_id, queue.name).pending
            for queue in service.reads.queues(owner)
        ),
    )


def _visible(request: Request, queue_id: str) -> tuple[TenantId, str]:
    tenant_id, name = _split(queue_id)
    visible_tenant(service_of(request), caller_of(request), tenant_id)
    return tenant_id, name


def _split(queue_id: str) -> tuple[TenantId, str]:
    tenant_id, colon, name = queue_id.partition(":")
    if not colon:
        raise NotFound("queue", queue_id, "a queue's id is project:name")
    return TenantId(tenant_id), name


def _queue_model(service: Service, queue: TenantQueue) -> QueueModel:
    count = service.reads.queue_count(queue.tenant_id, queue.name)
    ended = service.reads.usage(queue.tenant_id, queue.name).ended
    return QueueModel(
        id=f"{queue.tenant_id}:{queue.name}",
        project_id=queue.tenant_id,
        name=queue.name,
        priority=queue.priority,
        max_concurrent_jobs=queue.max_running_jobs,
        enabled=queue.enabled,
        policy=queue.policy,
        wait_target_seconds=None if queue.wait_target_ms is None else queue.wait_target_ms / SECOND,
        idle_action=queue.idle_action,
        running_jobs=count.running,
        pending_jobs=count.pending,
        total_jobs=count.live + ended,
    )


def _policy_name(name: str) -> str:
    if name and name not in QUEUE_NAMES:
        there_are = ", ".join(QUEUE_NAMES)
        raise InvalidRequest("policy", name, f"no such policy for a queue; there are: {there_are}")
    return name


def _wait_target(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, round(seconds * SECOND))


def _quota_model(service: Service, caller: Principal, tenant_id: TenantId) -> QuotaModel:
    """As the provider has it; where that knows nothing of the project, as our own books have it."""
    held = service.reads.tenant_allocation(tenant_id)
    quota = service.gate.quota(tenant_id) or service.reads.quota(tenant_id)
    cpu = _parts(quota.cpu_quota, quota.used_cpu)
    memory = _parts(quota.memory_quota, quota.used_memory)
    gpu = _parts(quota.gpu_quota, quota.used_gpu)
    users = user_list(service, sight(service, caller), tenant_id)
    return QuotaModel(
        project_id=tenant_id,
        cpu_quota=quota.cpu_quota,
        used_cpu=quota.used_cpu,
        available_cpu=cpu[0],
        cpu_usage_percent=cpu[1],
        memory_quota=quota.memory_quota,
        used_memory=quota.used_memory,
        available_memory=memory[0],
        memory_usage_percent=memory[1],
        gpu_quota=quota.gpu_quota,
        used_gpu=quota.used_gpu,
        available_gpu=gpu[0],
        gpu_usage_percent=gpu[1],
        borrowed_gpu=held.borrowed_millis / GPU,
        lent_gpu=held.lent_millis / GPU,
        enforce_quota=quota.enforce_quota,
        provider=service.gate.name,
        synced_at=utc_millis_text(service.clock.now()),
        user_limits=users.user_limits,
        users=users.users,
    )


def _parts(limit: float | None, used: float) -> tuple[float | None, float | None]:
    """What is left of a limit, and the part in use in percent; None where nothing limits."""
    if limit is None:
        return None, None
    percent = 100.0 * used / limit if limit else 100.0 * bool(used)
    return round(max(0.0, limit - used), 6), round(percent, 2)
