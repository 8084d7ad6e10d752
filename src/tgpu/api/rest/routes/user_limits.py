"""/api/v1/tenants/{tenant_id}/users: limits and use of the users of a tenant."""

from fastapi import Request

from tgpu.api.access.visible import sight, visible_tenant
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.parameters import Name
from tgpu.api.rest.route import Router
from tgpu.api.translate.user_limits import user_list, users_change
from tgpu.core.model.ids import TenantId
from tgpu.wire.user_limits_v1 import UserLimitsPatch, UserUseList

router = Router(prefix="/api/v1/tenants", tags=["tenants"])


@router.get("/{tenant_id}/users")
async def users(request: Request, tenant_id: Name) -> UserUseList:
    """Limits and use of each user of a tenant."""
    service, caller = service_of(request), caller_of(request)
    visible_tenant(service, caller, tenant_id)
    return user_list(service, sight(service, caller), TenantId(tenant_id))


@router.patch("/{tenant_id}/users")
async def change_users(request: Request, tenant_id: Name, body: UserLimitsPatch) -> UserUseList:
    """Limit the users of a tenant: all of them, and single users by name."""
    service, caller = service_of(request), caller_of(request)
    visible_tenant(service, caller, tenant_id)
    given = body.model_dump(exclude_unset=True)
    await service.tenants.change(TenantId(tenant_id), {}, users=users_change(given))
    return user_list(service, sight(service, caller), TenantId(tenant_id))
