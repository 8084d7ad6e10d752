"""/api/v1/queues and quotas, and the scheduler's own info and trigger."""

import math

from fastapi import Request, Response

from tgpu.api.rest.access import (
    caller_of,
    service_of,
    tenant_for,
    visible_counts,
    visible_tenant,
)
from tgpu.api.rest.parameters import Name
from tgpu.api.rest.route import Router
from tgpu.api.rest.standing import check_queue_priority
from tgpu.api.rest.tenants import core_fields
from tgpu.api.rest.user_limits import user_list
from tgpu.api.rest.view import iso
from tgpu.core.admission.cohort import borrowed, lent
from tgpu.core.errors import InvalidRequest, NotFound, quoted
from tgpu.core.model.ids import TenantId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.model.units import GPU, SECOND
from tgpu.core.policies import QUEUE_NAMES
from tgpu.service.accounting.quota_gate import quota_info
from tgpu.service.commands.tenants import queue_of, queues_of, tenant_use, usage_total
from tgpu.service.identity.caller import Principal
from tgpu.service.service import Service
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
    found = queues_of(service.state, owner)
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
    return _queue_model(service, queue_of(service.state, *_visible(request, queue_id)))


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
        queue
        for queue in queues_of(service.state, None)
        if queue.enabled and caller.sees(queue.tenant_id)
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
        tenant_use(service.state, owner)
    plan = await service.trigger()
    entries = [service.state.entry(start.job_id) for start in plan.starts]
    mine = [e for e in entries if e is not None and owner in (None, e.job.tenant_id)]
    return TriggerAnswer(
        scheduled_count=len(mine),
        remaining_pending=sum(
            _pending(service, queue) for queue in queues_of(service.state, owner)
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
    live = service.state.waiting.members(queue.tenant_id, queue.name)
    running = _running(service, queue)
    ended = usage_total(service.state, queue.tenant_id, queue.name).ended
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
        running_jobs=running,
        pending_jobs=live - running,
        total_jobs=live + ended,
    )


def _policy_name(name: str) -> str:
    if name and name not in QUEUE_NAMES:
        there_are = ", ".join(QUEUE_NAMES)
        raise InvalidRequest("policy", name, f"no such policy for a queue; there are: {there_are}")
    return name


def _wait_target(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, round(seconds * SECOND))


def _running(service: Service, queue: TenantQueue) -> int:
    use = service.state.ledger.queue(queue.tenant_id, queue.name)
    if use is not None:
        return use.running
    return sum(
        (entry.job.tenant_id, entry.job.queue) == (queue.tenant_id, queue.name)
        for entry in service.state.placed()
    )


def _pending(service: Service, queue: TenantQueue) -> int:
    live = service.state.waiting.members(queue.tenant_id, queue.name)
    return live - _running(service, queue)


def _quota_model(service: Service, caller: Principal, tenant_id: TenantId) -> QuotaModel:
    """As the provider has it; where that knows nothing of the project, as our own books have it."""
    local = quota_info(tenant_use(service.state, tenant_id))
    quota = service.gate.quota(tenant_id) or local
    cpu = _parts(quota.cpu_quota, quota.used_cpu)
    memory = _parts(quota.memory_quota, quota.used_memory)
    gpu = _parts(quota.gpu_quota, quota.used_gpu)
    users = user_list(service, caller, tenant_id)
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
        borrowed_gpu=borrowed(service.state.ledger, tenant_id) / GPU,
        lent_gpu=lent(service.state.ledger, tenant_id) / GPU,
        enforce_quota=quota.enforce_quota,
        provider=service.gate.name,
        synced_at=iso(service.clock.now()),
        user_limits=users.user_limits,
        users=users.users,
    )


def _parts(limit: float | None, used: float) -> tuple[float | None, float | None]:
    """What is left of a limit, and the part in use in percent; None where nothing limits."""
    if limit is None:
        return None, None
    percent = 100.0 * used / limit if limit else 100.0 * bool(used)
    return round(max(0.0, limit - used), 6), round(percent, 2)
