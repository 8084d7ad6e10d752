"""/api/v1/keys: create, list and revoke API keys; /api/v1/whoami."""

from fastapi import Request

from tgpu.api.access.visible import no_tenant_advice
from tgpu.api.auth.authenticator import Authenticator
from tgpu.api.auth.keys import ApiKey, KeyRing
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.parameters import Name
from tgpu.api.rest.route import Router
from tgpu.service.identity.caller import Permission, Role
from tgpu.service.identity.tenant_choice import default_tenant, tenants_of
from tgpu.service.recording.clock import WallClock
from tgpu.service.service import Service
from tgpu.text.instants import utc_millis_text
from tgpu.wire.keys_v1 import KeyCreate, KeyCreated, KeyList, KeyModel, WhoAmI

router = Router(tags=["identity"])

_DAY_MS = 86_400_000
_NAMED = 3  # tenants that a warning names
_HOW = {
    "local": "the connection: this service is yours and has no authentication",
    "key": "the API key",
    "user": "the token",
    "uid": "the connection: the user that runs the service, or root",
    "job": "the connection: a process of this job",
}


@router.post("/api/v1/keys", status_code=201)
async def create(request: Request, body: KeyCreate) -> KeyCreated:
    """Create an API key. The answer contains the key, which is shown only once."""
    days = body.expires_in_days
    key, text = await _ring(request).create(
        body.name,
        Role(body.role),
        body.tenants,
        created_by=caller_of(request).actor,
        expires_at=None if days is None else WallClock().now() + round(days * _DAY_MS),
    )
    warnings = _warnings(service_of(request), key)
    return KeyCreated(**_model(key).model_dump(), key=text, warnings=warnings)


@router.get("/api/v1/keys")
async def list_keys(request: Request) -> KeyList:
    """All keys, newest first, also those that are no longer valid."""
    return KeyList(keys=[_model(key) for key in await _ring(request).all()])


@router.delete("/api/v1/keys/{key_id}")
async def revoke(request: Request, key_id: Name) -> KeyModel:
    """Revoke a key, at once and for ever."""
    return _model(await _ring(request).revoke(key_id))


@router.get("/api/v1/whoami")
async def whoami(request: Request) -> WhoAmI:
    """The identity the service sees."""
    service, caller = service_of(request), caller_of(request)
    there_are = service.reads.tenant_ids
    is_nowhere = caller.tenants is not None and not tenants_of(caller, there_are)
    return WhoAmI(
        name=caller.name,
        kind=caller.kind,
        role=caller.role,
        tenants=None if caller.scope is None else list(caller.scope),
        tenant=default_tenant(caller, there_are),
        how=caller.how or _HOW.get(caller.kind, ""),
        problem=no_tenant_advice(service, caller) if is_nowhere else "",
    )


def _warnings(service: Service, key: ApiKey) -> list[str]:
    """Tenants whose jobs could only run as the service: those of this key are refused."""
    caller = key.principal
    if service.engine is None or not caller.may(Permission.CHANGE_JOBS):
        return []
    bare = [name for name in sorted(service.run_as.without_user()) if caller.sees(name)]
    if not bare:
        return []
    more = f" and {len(bare) - _NAMED} more" if len(bare) > _NAMED else ""
    return [
        f"its jobs are refused for tenant {', '.join(bare[:_NAMED])}{more}: no user is set for "
        f"them, and they never run as root; set one with: tgpu tenants change {bare[0]} --run-as "
        "USER (or --system-user, which creates one)"
    ]


def _ring(request: Request) -> KeyRing:
    service_of(request)  # 503 until there is one
    authenticator = request.app.state.authenticator
    assert isinstance(authenticator, Authenticator)
    return authenticator.keys()


def _model(key: ApiKey) -> KeyModel:
    now = WallClock().now()
    return KeyModel(
        id=key.key_id,
        name=key.name,
        role=key.role,
        tenants=None if key.tenants is None else list(key.tenants),
        state="revoked"
        if key.revoked_at is not None
        else "active"
        if key.is_valid(now)
        else "expired",
        created_at=utc_millis_text(key.created_at),
        created_by=key.created_by,
        expires_at=_iso(key.expires_at),
        revoked_at=_iso(key.revoked_at),
        last_used_at=_iso(key.last_used_at),
    )


def _iso(at: int | None) -> str | None:
    return None if at is None else utc_millis_text(at)
