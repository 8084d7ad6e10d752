"""Turns `auth.map` of the settings into rules, and warns about odd ones at start."""

import os

import structlog

from tgpu.service.identity.caller import Role
from tgpu.service.identity.local_users import MapSettings
from tgpu.service.identity.user_map import MapRule, UserMap
from tgpu.settings import Settings
from tgpu.settings.model import AuthSettings

_log = structlog.get_logger("gpu_scheduler")


def map_settings(auth: AuthSettings) -> MapSettings:
    rules = tuple(
        MapRule(rule.tenants, Role(rule.role), user=rule.user or "", group=rule.group or "")
        for rule in auth.map
    )
    return MapSettings(UserMap(rules), auth.map_cache_seconds)


def warn_of_map(settings: Settings, own_uid: int | None = None) -> None:
    """Of rules for nobody: where no other user is served, or for tenants that are not there."""
    own_uid = os.geteuid() if own_uid is None else own_uid
    if not settings.auth.map:
        return
    if own_uid != 0 or not (settings.auth.enabled or settings.serves_local_users(own_uid)):
        _log.warning(
            "auth.map has no effect: this service serves no other users of the machine, which "
            "takes root and auth.local_users",
        )
    known = {tenant.tenant_id for tenant in settings.tenants} or {"default"}
    missing = {name for rule in settings.auth.map for name in rule.tenants} - known - {"*"}
    if missing:
        _log.warning(
            "auth.map names tenants that the settings do not have: those who belong to them can "
            "submit nothing there until they are made with: tgpu tenants create",
            tenants=sorted(missing)[:20],
        )
