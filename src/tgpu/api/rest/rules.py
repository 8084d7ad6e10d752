"""The permission that each path needs, in one table that can be read and tested as a whole.

What is not in it is for admins alone: a new path is shut until somebody decides about it.
"""

from typing import Final

from fastapi import WebSocketException
from starlette.requests import HTTPConnection

from tgpu.core.errors import Forbidden
from tgpu.service.identity.caller import LOCAL, Permission, Principal, Role

_PUBLIC, _READ, _CHANGE = Permission.PUBLIC, Permission.READ, Permission.CHANGE_JOBS
_QUEUES, _TENANTS = Permission.MANAGE_QUEUES, Permission.MANAGE_TENANTS
_JOB: Final = "/api/v1/jobs/{job}"
_QUOTA: Final = "/api/v1/queues/quota/{project_id}"

RULES: Final[dict[tuple[str, str], Permission]] = {
    ("GET", "/health"): _PUBLIC,
    ("GET", "/healthz"): _PUBLIC,
    ("GET", "/api/v1/health"): _PUBLIC,
    # The tick-driven paths
    ("POST", "/jobs"): _CHANGE,
    ("POST", "/jobs/batch"): _CHANGE,
    ("POST", "/ingest"): _CHANGE,
    ("POST", "/schedule"): Permission.TRIGGER,
    ("POST", "/jobs/{job_id}/complete"): _CHANGE,
    ("GET", "/jobs/{job_id}"): _READ,
    ("GET", "/stats"): _READ,
    # Jobs
    ("POST", "/api/v1/jobs"): _CHANGE,
    ("GET", "/api/v1/jobs"): _READ,
    ("POST", "/api/v1/jobs/estimate"): _READ,
    ("POST", "/api/v1/jobs/select"): _CHANGE,
    ("GET", "/api/v1/arrays/{array}"): _READ,
    ("GET", "/api/v1/arrays/{array}/wait"): _READ,
    ("GET", "/api/v1/scheduler/accuracy"): _READ,
    ("GET", _JOB): _READ,
    ("DELETE", _JOB): _CHANGE,
    ("PATCH", _JOB): _CHANGE,
    ("POST", f"{_JOB}/hold"): _CHANGE,
    ("POST", f"{_JOB}/release"): _CHANGE,
    ("POST", f"{_JOB}/pause"): _CHANGE,
    ("POST", f"{_JOB}/resume"): _CHANGE,
    ("POST", f"{_JOB}/complete"): _CHANGE,
    ("POST", f"{_JOB}/checkpoint"): _CHANGE,
    ("POST", f"{_JOB}/rerun"): _CHANGE,
    ("GET", f"{_JOB}/wait"): _READ,
    ("GET", f"{_JOB}/why"): _READ,
    ("GET", f"{_JOB}/logs"): _READ,
    ("GET", f"{_JOB}/events"): _READ,
    ("GET", f"{_JOB}/receipt"): _READ,
    ("GET", "/api/v1/jobs/scheduler/info"): _READ,
    ("POST", "/api/v1/jobs/scheduler/trigger"): Permission.TRIGGER,
    ("GET", "/api/v1/preemptions"): _READ,
    # Events
    ("GET", "/api/v1/events"): _READ,
    ("WEBSOCKET", "/api/v1/events"): _READ,
    ("GET", "/api/v1/journal"): Permission.EXPORT,
    # The machine
    ("GET", "/api/v1/cluster/status"): _READ,
    ("GET", "/api/v1/cluster/metrics"): _READ,
    ("GET", "/api/v1/gpus"): _READ,
    ("POST", "/api/v1/gpus/{index}/pause"): Permission.CONTROL_GPUS,
    ("POST", "/api/v1/gpus/{index}/resume"): Permission.CONTROL_GPUS,
    ("POST", "/api/v1/gpus/{node}/{index}/pause"): Permission.CONTROL_GPUS,
    ("POST", "/api/v1/gpus/{node}/{index}/resume"): Permission.CONTROL_GPUS,
    ("POST", "/api/v1/adopt"): Permission.CONTROL_GPUS,
    ("GET", "/api/v1/nodes"): Permission.SEE_CLUSTER,
    ("GET", "/api/v1/nodes/{name}"): Permission.SEE_CLUSTER,
    ("DELETE", "/api/v1/nodes/{name}"): Permission.CONTROL_GPUS,
    # Tenants, queues, quotas
    ("GET", "/api/v1/tenants"): _READ,
    ("POST", "/api/v1/tenants"): _TENANTS,
    ("GET", "/api/v1/tenants/{tenant_id}"): _READ,
    ("PATCH", "/api/v1/tenants/{tenant_id}"): _TENANTS,
    ("DELETE", "/api/v1/tenants/{tenant_id}"): _TENANTS,
    ("GET", "/api/v1/tenants/{tenant_id}/usage"): _READ,
    ("GET", "/api/v1/tenants/{tenant_id}/users"): _READ,
    ("PATCH", "/api/v1/tenants/{tenant_id}/users"): Permission.MANAGE_USERS,
    ("GET", "/api/v1/queues"): _READ,
    ("POST", "/api/v1/queues"): _QUEUES,
    ("GET", "/api/v1/queues/{queue_id}"): _READ,
    ("PATCH", "/api/v1/queues/{queue_id}"): _QUEUES,
    ("DELETE", "/api/v1/queues/{queue_id}"): _QUEUES,
    ("GET", _QUOTA): _READ,
    ("PATCH", _QUOTA): _TENANTS,
    ("POST", f"{_QUOTA}/sync"): _TENANTS,
    ("GET", "/api/v1/budgets"): _READ,
    ("GET", "/api/v1/share"): _READ,
    ("GET", "/api/v1/sizes"): _READ,
    ("GET", "/api/v1/jobs-file"): Permission.SEE_CLUSTER,
    ("GET", "/api/v1/notices"): Permission.SEE_CLUSTER,
    ("POST", "/api/v1/notices/{name}/test"): Permission.SEE_CLUSTER,
    # Reservations
    ("GET", "/api/v1/reservations"): _READ,
    ("POST", "/api/v1/reservations"): _CHANGE,
    ("GET", "/api/v1/reservations/{reservation_id}"): _READ,
    ("DELETE", "/api/v1/reservations/{reservation_id}"): _CHANGE,
    # Identity
    ("GET", "/api/v1/keys"): Permission.MANAGE_KEYS,
    ("POST", "/api/v1/keys"): Permission.MANAGE_KEYS,
    ("DELETE", "/api/v1/keys/{key_id}"): Permission.MANAGE_KEYS,
    ("GET", "/api/v1/audit"): Permission.READ_AUDIT,
    ("GET", "/api/v1/whoami"): _READ,
}

# Outside of the routes that FastAPI checks: pages for people, and what is mounted.
PUBLIC_PATHS: Final = frozenset(
    {path for (_, path), permission in RULES.items() if permission is _PUBLIC}
    | {"/", "/docs", "/docs/", "/redoc", "/openapi.json"}
    | {f"/docs/{name}" for name in ("swagger-ui-bundle.js", "swagger-ui.css", "start.js")}
    | {"/docs/favicon-32x32.png"}
)
PERMISSION_OF_PATH: Final = {"/metrics": Permission.SEE_CLUSTER}


def principal_of(connection: HTTPConnection) -> Principal:
    """Who calls, as the gate found out; where there is no gate, whoever is on this machine."""
    found = connection.scope.get("state", {}).get("principal", LOCAL)
    assert isinstance(found, Principal)
    return found


async def check_role(connection: HTTPConnection) -> None:
    """Before every path: whether the caller's role may use it. Raises Forbidden."""
    route = connection.scope.get("route")
    method = connection.scope.get("method", "WEBSOCKET")
    permission = RULES.get((method, getattr(route, "path", "")))
    principal = principal_of(connection)
    try:
        if permission is None:
            _require_admin(principal)
        else:
            principal.require(permission)
    except Forbidden as error:
        if connection.scope["type"] == "websocket":
            raise WebSocketException(1008, error.message) from None
        raise


def _require_admin(principal: Principal) -> None:
    if principal.role is not Role.ADMIN or principal.tenants is not None:
        raise Forbidden("this path is for admins", [{"needs": str(Role.ADMIN)}])
