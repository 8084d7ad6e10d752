"""Callers, the permissions of roles, and the tenants a caller may see. Pure.

Roles hold permissions; tenants bound to a caller say for whom. What belongs to a tenant outside
the caller's scope is answered exactly like what does not exist.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tgpu.core.errors import Forbidden, InvalidRequest
from tgpu.core.model.ids import TenantId


class Role(StrEnum):
    """From most to least."""

    ADMIN = "admin"
    OPERATOR = "operator"
    USER = "user"
    VIEWER = "viewer"


class Permission(StrEnum):
    """The value completes "a viewer may not …"."""

    PUBLIC = "ask"  # needs no identity at all
    READ = "read jobs, logs, events and usage"
    CHANGE_JOBS = "submit or change jobs"
    CONTROL_GPUS = "pause or resume GPUs"
    TRIGGER = "run scheduling cycles"
    SEE_CLUSTER = "see the details of the cluster"
    MANAGE_QUEUES = "create or change queues"
    MANAGE_USERS = "limit the users of a tenant"
    MANAGE_TENANTS = "create or change tenants and their quotas"
    MANAGE_KEYS = "manage API keys"
    READ_AUDIT = "read the audit log"
    EXPORT = "export the journal"


_VIEWER: Final = frozenset({Permission.PUBLIC, Permission.READ})
_USER: Final = _VIEWER | {Permission.CHANGE_JOBS}
_OPERATOR: Final = _USER | {
    Permission.CONTROL_GPUS,
    Permission.TRIGGER,
    Permission.SEE_CLUSTER,
}
PERMISSIONS: Final[Mapping[Role, frozenset[Permission]]] = {
    Role.VIEWER: _VIEWER,
    Role.USER: _USER,
    Role.OPERATOR: _OPERATOR,
    Role.ADMIN: frozenset(Permission),
}
# What concerns everybody: a caller who is bound to tenants may not, whatever the role.
CLUSTER_WIDE: Final = frozenset(
    {
        Permission.CONTROL_GPUS,
        Permission.TRIGGER,
        Permission.SEE_CLUSTER,
        Permission.MANAGE_TENANTS,
        Permission.MANAGE_KEYS,
        Permission.READ_AUDIT,
        Permission.EXPORT,
    }
)


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller who is known. `tenants` None: all of them, also those made later."""

    name: str
    role: Role
    tenants: frozenset[TenantId] | None = None
    uid: int | None = None  # of the process at the other end of a Unix socket, told by the kernel
    kind: str = "local"  # "local", "key", "user" (a token's), "uid", "job"
    key_id: str = ""  # of an API key: names of keys are not unique
    job_id: str = ""  # of a job that calls, with the name of its user
    acts_for: str = ""  # the owner of that job, who owns what it submits
    how: str = ""  # why these tenants and this role, in words, where a rule gave them

    @property
    def actor(self) -> str:
        """As the audit log names it."""
        return self.name if self.kind == "local" else f"{self.kind}:{self.job_id or self.name}"

    @property
    def owner(self) -> str:
        """As the jobs they submit name it."""
        return self.acts_for or (f"{self.kind}:{self.key_id}" if self.key_id else self.actor)

    @property
    def user(self) -> str:
        """Whose jobs are their own, by name; of a job that calls, its user; nothing: nobody's."""
        is_nameless = self.kind == "job" and self.name == self.job_id
        return "" if is_nameless else self.name

    def may(self, permission: Permission) -> bool:
        if permission in CLUSTER_WIDE and self.tenants is not None:
            return False
        return permission in PERMISSIONS[self.role]

    def require(self, permission: Permission) -> None:
        """Raises Forbidden."""
        if not self.may(permission):
            raise not_allowed(self, permission)

    def sees(self, tenant_id: str) -> bool:
        return self.tenants is None or tenant_id in self.tenants

    def within(self, *wanted: str) -> frozenset[TenantId] | None:
        """The tenants to show where the caller asks for some, or for all that are theirs."""
        if not wanted:
            return self.tenants
        return frozenset(TenantId(name) for name in wanted if self.sees(name))

    @property
    def scope(self) -> tuple[TenantId, ...] | None:
        """For queries: the tenants to look at, in order; None for all."""
        return None if self.tenants is None else tuple(sorted(self.tenants))


# Whoever reaches a service that asks nobody who they are: it listens to this user alone.
LOCAL: Final = Principal("local", Role.ADMIN)


def scope_of(role: Role, tenants: Iterable[str] | None) -> frozenset[TenantId] | None:
    """The tenants a caller is bound to. `*` is all; without any, only who runs things sees all."""
    if tenants is None:
        return None if role in (Role.ADMIN, Role.OPERATOR) else frozenset()
    named = frozenset(TenantId(name) for name in tenants)
    return None if "*" in named else named


_ARTICLES: Final = {Role.ADMIN: "an", Role.OPERATOR: "an"}


def not_allowed(principal: Principal, permission: Permission) -> Forbidden:
    if permission in PERMISSIONS[principal.role]:
        who = f"a caller bound to {_some(principal.tenants or ())}"
    else:
        who = f"{_ARTICLES.get(principal.role, 'a')} {principal.role}"
    needed = next(str(role) for role in reversed(Role) if permission in PERMISSIONS[role])
    bound = " for all tenants" if permission in CLUSTER_WIDE else ""
    return Forbidden(
        f"{who} may not {permission}; this needs the role {needed}{bound}",
        [{"role": str(principal.role), "needs": needed}],
    )


def unknown_tenant(
    principal: Principal, tenant_id: str, there_are: Iterable[TenantId]
) -> InvalidRequest:
    """A submission for a tenant that is not there, as far as this caller is concerned."""
    visible = ", ".join(sorted(name for name in there_are if principal.sees(name))[:20])
    remedy = (
        f"no such tenant; there are: {visible}"
        if principal.tenants is None
        else f"no such tenant, or not one of yours; you may use: {visible}"
    )
    return InvalidRequest("tenant_id", tenant_id, remedy)


def _some(tenants: Iterable[str]) -> str:
    named = sorted(tenants)
    return f"tenant {', '.join(named[:3])}" if named else "no tenant"
