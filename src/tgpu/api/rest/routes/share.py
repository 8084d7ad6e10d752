"""/api/v1/share: the fair shares, entitled and used."""

from typing import Any

from fastapi import APIRouter, Request

from tgpu.api.access.visible import sight, visible_tenant
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.parameters import Name
from tgpu.api.translate.user_limits import user_models
from tgpu.core.explain.share import MILLION, TenantShare, UsageShare
from tgpu.core.model.units import GPU
from tgpu.service.identity.ownership import Sight
from tgpu.service.service import Service
from tgpu.text.instants import utc_millis_text
from tgpu.wire.share_v1 import ShareList, TenantShareModel, UserShareModel

router = APIRouter(prefix="/api/v1/share", tags=["tenants"])

_HOUR_MS = 3_600_000


@router.get("")
async def share(request: Request, tenant_id: Name | None = None) -> ShareList:
    """The fair share of every tenant, or of one, and of its users."""
    service = service_of(request)
    caller = caller_of(request)
    if tenant_id is not None:
        visible_tenant(service, caller, tenant_id)
    now, seen = service.clock.now(), sight(service, caller)
    found = [
        _tenant_model(service, seen, each, now)
        for each in service.reads.shares(now)
        if caller.sees(each.tenant_id) and tenant_id in (None, each.tenant_id)
    ]
    return ShareList(
        policy=service.settings.scheduling.policy.name,
        half_life_hours=service.reads.half_life_ms / _HOUR_MS,
        at=utc_millis_text(now),
        tenants=found,
    )


def _tenant_model(service: Service, seen: Sight, found: TenantShare, now: int) -> TenantShareModel:
    """With the users whose jobs the caller sees."""
    limits = {u.user: u for u in user_models(service, found.tenant_id)}
    users = [
        UserShareModel(user=user, limits=limits.get(user), **_fields(each, now))
        for user, each in found.users
        if seen.sees(found.tenant_id, user)
    ]
    return TenantShareModel(tenant_id=found.tenant_id, users=users, **_fields(found.share, now))


def _fields(found: UsageShare, now: int) -> dict[str, Any]:
    entitled, used = found.entitled_ppm, found.used_ppm
    return {
        "weight": found.weight_millis / 1000,
        "entitled": entitled / MILLION,
        "used": used / MILLION,
        "used_gpu_hours": round(found.used_gpu_millis_ms / (GPU * _HOUR_MS), 6),
        "current_gpus": found.holds_gpu_millis / GPU,
        "standing": round(used / entitled, 4) if entitled else None,
        "is_even": found.even_at == now,
        "even_at": None if found.even_at is None else utc_millis_text(found.even_at),
    }
