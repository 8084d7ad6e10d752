"""/api/v1/tenants/{tenant_id}/users: limits and use of the users of a tenant."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from fastapi import Request

from tgpu.api.rest.access import caller_of, service_of, sight, visible_tenant
from tgpu.api.rest.parameters import Name
from tgpu.api.rest.route import Router
from tgpu.core.errors import InvalidRequest
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import UserLimits
from tgpu.core.model.units import GPU, GPU_HOUR, GPU_STEP
from tgpu.service.accounting.user_limits import UserLimitsChange, UserUse, user_uses
from tgpu.service.identity.caller import Principal
from tgpu.service.service import Service
from tgpu.wire.user_limits_v1 import UserLimitsModel, UserLimitsPatch, UserUseList, UserUseModel

router = Router(prefix="/api/v1/tenants", tags=["tenants"])


@router.get("/{tenant_id}/users")
async def users(request: Request, tenant_id: Name) -> UserUseList:
    """Limits and use of each user of a tenant."""
    service, caller = service_of(request), caller_of(request)
    visible_tenant(service, caller, tenant_id)
    return user_list(service, caller, TenantId(tenant_id))


@router.patch("/{tenant_id}/users")
async def change_users(request: Request, tenant_id: Name, body: UserLimitsPatch) -> UserUseList:
    """Limit the users of a tenant: all of them, and single users by name."""
    service, caller = service_of(request), caller_of(request)
    visible_tenant(service, caller, tenant_id)
    given = body.model_dump(exclude_unset=True)
    await service.tenants.change(TenantId(tenant_id), {}, users=users_change(given))
    return user_list(service, caller, TenantId(tenant_id))


def users_change(given: dict[str, Any]) -> UserLimitsChange | None:
    """Takes `user_limits` and `users` out of a request's fields; None where neither is there."""
    each, by_user = given.pop("user_limits", None), given.pop("users", None)
    if each is None and by_user is None:
        return None
    named = (by_user or {}).items()
    return UserLimitsChange(
        _core(each or {}),
        {user: None if fields is None else _core(fields) for user, fields in named},
    )


def user_list(service: Service, caller: Principal, tenant_id: TenantId) -> UserUseList:
    """As far as the caller sees the users' jobs."""
    seen, tenant = sight(service, caller), service.state.ledger.tenant(tenant_id).tenant
    return UserUseList(
        tenant_id=tenant_id,
        user_limits=limits_model(tenant.user_limits),
        users=[use for use in user_models(service, tenant_id) if seen.sees(tenant_id, use.user)],
    )


def user_models(service: Service, tenant_id: TenantId) -> list[UserUseModel]:
    """All of them."""
    return [_use_model(u) for u in user_uses(service.state, tenant_id, service.clock.now())]


def limits_model(limits: UserLimits) -> UserLimitsModel:
    return UserLimitsModel.model_construct(**_fields(limits))


def _use_model(use: UserUse) -> UserUseModel:
    return UserUseModel(
        user=use.user,
        by_name=use.by_name,
        current_gpus=use.gpu_millis / GPU,
        current_jobs=use.jobs,
        gpu_hours_today=None if use.today is None else round(use.today / GPU_HOUR, 6),
        **_fields(use.limits),
    )


def _fields(limits: UserLimits) -> dict[str, Any]:
    gpus, a_day = limits.max_gpu_millis, limits.max_gpu_millis_ms_a_day
    return {
        "max_gpus": None if gpus is None else gpus / GPU,
        "max_concurrent_jobs": limits.max_running_jobs,
        "max_gpu_hours_per_day": None if a_day is None else a_day / GPU_HOUR,
    }


def _core(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The core's names and integers."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        match name:
            case "max_gpus":
                found["max_gpu_millis"] = None if value is None else _millis(value)
            case "max_gpu_hours_per_day":
                hours = None if value is None else int(Decimal(str(value)) * GPU_HOUR)
                found["max_gpu_millis_ms_a_day"] = hours
            case _:
                found["max_running_jobs"] = value
    return found


def _millis(gpus: float) -> int:
    millis = Decimal(str(gpus)) * GPU
    if millis % GPU_STEP:
        raise InvalidRequest("max_gpus", gpus, "GPUs come in steps of 0.01")
    return int(millis)
