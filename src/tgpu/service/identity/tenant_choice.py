"""Which tenant a call is for: the one it names, if it may; else the only one of its caller."""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from tgpu.core.errors import Forbidden, InvalidRequest, SchedulerError
from tgpu.core.model.ids import DEFAULT_TENANT, TenantId
from tgpu.service.identity.caller import Principal, unknown_tenant

_MOST_NAMED: Final = 20


class TenantUnsaid(InvalidRequest):
    """There are several, and the caller did not say which."""

    def __init__(self, theirs: Iterable[str]) -> None:
        named = some_names(theirs)
        remedy = "give --tenant (tenant_id), or set a default: tgpu config set tenant NAME"
        SchedulerError.__init__(
            self,
            f"which tenant is this for? You may use {named}; {remedy}",
            [{"field": "tenant_id", "tenants": sorted(theirs)[:_MOST_NAMED], "remedy": remedy}],
        )
        self.field = "tenant_id"


class NoTenant(Forbidden):
    """The caller is known, and belongs nowhere."""


def tenants_of(caller: Principal, there_are: Collection[TenantId]) -> list[TenantId]:
    """Those that the caller may submit for, by name."""
    return sorted(name for name in there_are if caller.sees(name))


def default_tenant(caller: Principal, there_are: Collection[TenantId]) -> TenantId | None:
    """The tenant of what names none: `default` where that is one of theirs, or the only one."""
    if caller.sees(DEFAULT_TENANT) and DEFAULT_TENANT in there_are:
        return DEFAULT_TENANT
    theirs = tenants_of(caller, there_are)
    return theirs[0] if len(theirs) == 1 else None


def chosen_tenant(
    caller: Principal, said: str | None, there_are: Collection[TenantId], advice: Callable[[], str]
) -> TenantId:
    """Raises NoTenant with the advice, TenantUnsaid, or InvalidRequest with those they may use."""
    theirs = tenants_of(caller, there_are)
    if not theirs and caller.tenants is not None:
        raise NoTenant(advice())
    if said is None:
        found = default_tenant(caller, there_are)
        if found is None:
            raise TenantUnsaid(theirs)
        return found
    if said not in theirs:
        raise unknown_tenant(caller, said, there_are)
    return TenantId(said)


def some_names(names: Iterable[str]) -> str:
    """For sentences: all of a few, and how many more there are."""
    found = sorted(names)
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return ", ".join(found[:_MOST_NAMED]) + more
