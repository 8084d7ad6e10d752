"""/api/v1/tenants: create, list, look, change, deactivate, usage."""

from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from gpu_scheduler.api.rest.access import (
    caller_of,
    service_of,
    visible_tenant,
    visible_tenants,
)
from gpu_scheduler.api.rest.view import iso
from gpu_scheduler.core.errors import InvalidRequest
from gpu_scheduler.core.ids import TenantId
from gpu_scheduler.core.ledger import TenantUse
from gpu_scheduler.core.tenant import Tier
from gpu_scheduler.core.units import CPU, GPU, GPU_STEP
from gpu_scheduler.core.usage import NO_USAGE, Usage
from gpu_scheduler.service.service import Service
from gpu_scheduler.service.tenants import tenant_use, usage_total
from gpu_scheduler.wire.tenants_v1 import (
    DailyUsageModel,
    TenantCreate,
    TenantList,
    TenantModel,
    TenantPatch,
    TenantUsage,
    UsageModel,
)

router = APIRouter(prefix="/api/v1/tenants", tags=["tenants"])

_DAY_MS = 86_400_000


@router.post("", status_code=201)
async def create(request: Request, body: TenantCreate) -> TenantModel:
    """Create a tenant (a project) with its quotas."""
    service = service_of(request)
    tenant_id = None if body.id is None else TenantId(body.id)
    fields = core_fields(body.model_dump(exclude={"id"}))
    tenant = await service.tenants.create(tenant_id, **fields)
    return tenant_model(service, tenant_use(service.state, tenant.tenant_id))


@router.get("")
async def list_tenants(request: Request) -> TenantList:
    """All tenants, by id."""
    service = service_of(request)
    uses = visible_tenants(service, caller_of(request))
    return TenantList(tenants=[tenant_model(service, use) for use in uses])


@router.get("/{tenant_id}")
async def get(request: Request, tenant_id: str) -> TenantModel:
    """A tenant, its limits, and what it has and had."""
    service = service_of(request)
    return tenant_model(service, visible_tenant(service, caller_of(request), tenant_id))


@router.patch("/{tenant_id}")
async def change(request: Request, tenant_id: str, body: TenantPatch) -> TenantModel:
    """Change some fields of a tenant."""
    service = service_of(request)
    changes = core_fields(body.model_dump(exclude_unset=True))
    await service.tenants.change(TenantId(tenant_id), changes)
    return tenant_model(service, tenant_use(service.state, TenantId(tenant_id)))


@router.delete("/{tenant_id}")
async def deactivate(request: Request, tenant_id: str) -> TenantModel:
    """Deactivate a tenant: it takes and starts no more jobs. What runs goes on; history stays."""
    service = service_of(request)
    await service.tenants.change(TenantId(tenant_id), {"active": False})
    return tenant_model(service, tenant_use(service.state, TenantId(tenant_id)))


@router.get("/{tenant_id}/usage")
async def usage(
    request: Request, tenant_id: str, days: Annotated[int, Query(ge=1, le=3660)] = 30
) -> TenantUsage:
    """What a tenant used up, in all and by day."""
    service = service_of(request)
    owner = visible_tenant(service, caller_of(request), tenant_id).tenant.tenant_id
    today = service.clock.now() // _DAY_MS
    by_day: dict[int, Usage] = {}
    for row in await service.store.usage(today - days + 1, owner):
        by_day[row.day] = by_day.get(row.day, NO_USAGE) + row.usage
    return TenantUsage(
        tenant_id=owner,
        total=_usage_model(service, usage_total(service.state, owner)),
        days=[
            DailyUsageModel(date=_date(day), **_usage_model(service, used).model_dump())
            for day, used in sorted(by_day.items())
        ],
    )


def core_fields(body: dict[str, Any]) -> dict[str, Any]:
    """The core's names and integers for the fields that are set."""
    fields: dict[str, Any] = {}
    for name, value in body.items():
        match name:
            case "max_gpus":
                fields["max_gpu_millis"] = _gpu_millis(name, value)
            case "max_gpus_by_type":
                fields["max_gpu_millis_by_type"] = tuple(
                    (gpu_type, _gpu_millis(name, gpus)) for gpu_type, gpus in sorted(value.items())
                )
            case "max_gpu_memory_mb":
                fields["max_gpu_mem_mib"] = value
            case "max_cpu_cores":
                fields["max_cpu_millis"] = None if value is None else round(value * CPU)
            case "max_memory_mb":
                fields["max_mem_mib"] = value
            case "max_concurrent_jobs":
                fields["max_running_jobs"] = value
            case "priority_tier":
                fields["tier"] = Tier(value)
            case "fair_share_weight":
                fields["weight_millis"] = round(value * 1000)
            case _:
                fields[name] = value
    return fields


def tenant_model(service: Service, use: TenantUse) -> TenantModel:
    tenant = use.tenant
    return TenantModel(
        id=tenant.tenant_id,
        name=tenant.name or tenant.tenant_id,
        max_gpus=_of(tenant.max_gpu_millis, GPU),
        max_gpus_by_type={name: millis / GPU for name, millis in tenant.max_gpu_millis_by_type},
        max_gpu_memory_mb=tenant.max_gpu_mem_mib,
        max_cpu_cores=_of(tenant.max_cpu_millis, CPU),
        max_memory_mb=tenant.max_mem_mib,
        max_concurrent_jobs=tenant.max_running_jobs,
        priority_tier=tenant.tier.value,
        fair_share_weight=tenant.weight_millis / 1000,
        allow_preemption=tenant.allow_preemption,
        enforce_quota=tenant.enforce_quota,
        active=tenant.active,
        created_at=iso(tenant.created_at),
        current_gpus=use.gpu_millis / GPU,
        current_gpus_by_type={
            name: millis / GPU for name, millis in sorted(use.gpu_millis_by_type.items())
        },
        current_gpu_memory_mb=use.gpu_mem_mib,
        current_cpu_cores=use.cpu_millis / CPU,
        current_memory_mb=use.mem_mib,
        current_jobs=use.jobs,
        usage=_usage_model(service, usage_total(service.state, tenant.tenant_id)),
    )


def _usage_model(service: Service, usage: Usage) -> UsageModel:
    price = Decimal(str(service.settings.cost_per_gpu_hour))
    cost = Decimal(usage.gpu_millis_ms) * price / Decimal(3_600_000_000)
    return UsageModel(
        gpu_hours=round(usage.gpu_hours, 9),
        gpu_seconds=usage.gpu_millis_ms / (GPU * 1000),
        jobs_completed=usage.completed,
        jobs_failed=usage.failed,
        jobs_cancelled=usage.cancelled,
        cost=float(cost.quantize(Decimal("0.0001"), ROUND_HALF_UP)),
    )


def _gpu_millis(field: str, gpus: float | None) -> int | None:
    if gpus is None:
        return None
    millis = Decimal(str(gpus)) * GPU
    if millis % GPU_STEP:
        raise InvalidRequest(field, gpus, "GPUs come in steps of 0.01")
    return int(millis)


def _of(amount: int | None, unit: int) -> float | None:
    return None if amount is None else amount / unit


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * _DAY_MS / 1000, UTC).date().isoformat()
