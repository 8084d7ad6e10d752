"""/api/v1/tenants: create, list, look, change, deactivate, usage."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query, Request

from tgpu.api.access.visible import visible_tenant, visible_tenants
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.parameters import Name
from tgpu.api.rest.route import Router
from tgpu.api.translate.tenants import core_fields, tenant_model, usage_model
from tgpu.api.translate.user_limits import users_change
from tgpu.core.model.ids import TenantId
from tgpu.core.model.usage import NO_USAGE, GpuTimeUsage
from tgpu.wire.tenants_v1 import (
    DailyUsageModel,
    TenantCreate,
    TenantList,
    TenantModel,
    TenantPatch,
    TenantUsage,
)

router = Router(prefix="/api/v1/tenants", tags=["tenants"])

_DAY_MS = 86_400_000


@router.post("", status_code=201)
async def create(request: Request, body: TenantCreate) -> TenantModel:
    """Create a tenant (a project) with its quotas."""
    service = service_of(request)
    tenant_id = None if body.id is None else TenantId(body.id)
    given = body.model_dump(exclude={"id", "system_user"})
    users = users_change(given)
    fields = core_fields(given, service.settings.cost_per_gpu_hour)
    tenant = await service.tenants.create(
        tenant_id, system_user=body.system_user, users=users, **fields
    )
    return tenant_model(service, tenant.tenant_id)


@router.get("")
async def list_tenants(request: Request) -> TenantList:
    """All tenants, by id."""
    service = service_of(request)
    found = visible_tenants(service, caller_of(request))
    return TenantList(tenants=[tenant_model(service, tenant.tenant_id) for tenant in found])


@router.get("/{tenant_id}")
async def get(request: Request, tenant_id: Name) -> TenantModel:
    """A tenant, its limits, current use and total usage."""
    service = service_of(request)
    visible_tenant(service, caller_of(request), tenant_id)
    return tenant_model(service, tenant_id)


@router.patch("/{tenant_id}")
async def change(request: Request, tenant_id: Name, body: TenantPatch) -> TenantModel:
    """Change some fields of a tenant."""
    service = service_of(request)
    given = body.model_dump(exclude_unset=True, exclude={"system_user"})
    users = users_change(given)
    changes = core_fields(given, service.settings.cost_per_gpu_hour)
    await service.tenants.change(
        TenantId(tenant_id), changes, system_user=body.system_user, users=users
    )
    return tenant_model(service, tenant_id)


@router.delete("/{tenant_id}")
async def deactivate(request: Request, tenant_id: Name) -> TenantModel:
    """Deactivate a tenant: it accepts and starts no more jobs. Running jobs continue; history
    stays."""
    service = service_of(request)
    await service.tenants.change(TenantId(tenant_id), {"active": False})
    return tenant_model(service, tenant_id)


@router.get("/{tenant_id}/usage")
async def usage(
    request: Request, tenant_id: Name, days: Annotated[int, Query(ge=1, le=3660)] = 30
) -> TenantUsage:
    """Usage of a tenant, in total and by day."""
    service = service_of(request)
    owner = visible_tenant(service, caller_of(request), tenant_id).tenant_id
    today = service.clock.now() // _DAY_MS
    by_day: dict[int, GpuTimeUsage] = {}
    for row in await service.store.usage(today - days + 1, owner):
        by_day[row.day] = by_day.get(row.day, NO_USAGE) + row.usage
    return TenantUsage(
        tenant_id=owner,
        total=usage_model(service, service.reads.usage(owner)),
        days=[
            DailyUsageModel(date=_date(day), **usage_model(service, used).model_dump())
            for day, used in sorted(by_day.items())
        ],
    )


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * _DAY_MS / 1000, UTC).date().isoformat()
