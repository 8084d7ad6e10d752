"""Limits of single users inside a tenant, between the wire and the core."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tgpu.core.errors import InvalidRequest
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import UserLimits
from tgpu.core.model.units import GPU, GPU_HOUR, GPU_STEP
from tgpu.service.accounting.user_limits import UserLimitsChange, UserUse
from tgpu.service.identity.ownership import Sight
from tgpu.service.service import Service
from tgpu.wire.user_limits_v1 import UserLimitsModel, UserUseList, UserUseModel


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


def user_list(service: Service, seen: Sight, tenant_id: TenantId) -> UserUseList:
    """As far as the reader sees the users' jobs."""
    tenant = service.reads.tenant(tenant_id)
    return UserUseList(
        tenant_id=tenant_id,
        user_limits=limits_model(tenant.user_limits),
        users=[use for use in user_models(service, tenant_id) if seen.sees(tenant_id, use.user)],
    )


def user_models(service: Service, tenant_id: TenantId) -> list[UserUseModel]:
    """All of them."""
    return [_use_model(u) for u in service.reads.user_uses(tenant_id, service.clock.now())]


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
