"""Which callers a service with these settings serves, and which settings are too dangerous to start
with."""

import os

from tgpu.api.auth.doors import DoorRules
from tgpu.app.refusal import CannotServe
from tgpu.peers.users import user_name
from tgpu.settings import Settings
from tgpu.settings.model import is_loopback


def door_rules(settings: Settings, own_uid: int | None = None) -> DoorRules:
    """Raises CannotServe."""
    uid = os.geteuid() if own_uid is None else own_uid
    local_users = settings.serves_local_users(uid)
    if local_users and uid != 0:
        raise CannotServe(
            f"auth.local_users: this service runs as {user_name(uid)} and cannot run jobs as "
            "anybody else; set it to false, or have root run the service"
        )
    if uid == 0 and not settings.auth.enabled:
        _check_root(settings, local_users=local_users)
    api = settings.api
    return DoorRules(
        uid,
        enabled=settings.auth.enabled,
        local_users=local_users,
        strangers=api.insecure_listen and not is_loopback(api.host),
    )


def _check_root(settings: Settings, *, local_users: bool) -> None:
    api = settings.api
    if api.http_port and not local_users:
        raise CannotServe(
            "this service runs as root and listens on TCP, and neither auth.enabled nor "
            "auth.local_users identifies callers: set one of them to true, or listen on a Unix "
            "socket alone (api.http_port: 0, api.socket)"
        )
    is_reached = api.http_port and api.insecure_listen and not is_loopback(api.host)
    if is_reached and settings.engine.kind != "none":
        # Whatever engine.run_as says: without identities there is no tenant whose user it could be.
        raise CannotServe(
            "--insecure-listen (api.insecure_listen) would let anyone who reaches "
            f"{api.host}:{api.http_port} run commands as root: set auth.enabled: true, do not run "
            "the service as root, or run no jobs (engine.kind: none)"
        )
