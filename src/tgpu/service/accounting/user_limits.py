"""Limits of single users of a tenant: changes, and current use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import NO_USER_LIMITS, Tenant, UserLimits
from tgpu.core.state.cluster_state import State


@dataclass(frozen=True, slots=True)
class UserLimitsChange:
    """Fields of `UserLimits` that are to be others, of each user and of some by name.

    A name with None has no limits of its own any more.
    """

    each: Mapping[str, Any] = field(default_factory=dict)
    by_user: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)

    def applied(self, tenant: Tenant) -> Tenant:
        own = dict(tenant.limits_by_user)
        for user, fields in self.by_user.items():
            if fields is None:
                own.pop(user, None)
            else:
                own[user] = replace(tenant.limits_of(user), **fields)
        each = replace(tenant.user_limits, **self.each)
        return replace(tenant, user_limits=each, limits_by_user=tuple(sorted(own.items())))


@dataclass(frozen=True, slots=True)
class UserUse:
    user: str
    limits: UserLimits
    by_name: bool
    gpu_millis: int
    jobs: int
    today: int | None  # GPU time, in thousandths times milliseconds; None: not counted


def user_uses(state: State, tenant_id: TenantId, now: int) -> Iterator[UserUse]:
    """Users with limits of their own, with GPUs, or with some of today's, by name."""
    use = state.ledger.tenant(tenant_id)
    tenant, named = use.tenant, dict(use.tenant.limits_by_user)
    days = {user for owner, user in state.user_days.spends if owner == tenant_id}
    for user in sorted({*named, *use.jobs_by_user, *days} - {""}):
        limits = tenant.limits_of(user)
        is_counted = limits.max_gpu_millis_ms_a_day is not None
        spend = state.user_days.spend(tenant_id, user).upto(now)
        yield UserUse(
            user,
            limits,
            user in named,
            use.gpu_millis_by_user.get(user, 0),
            use.jobs_by_user.get(user, 0),
            spend.day if is_counted else None,
        )


def has_user_limits(tenant: Tenant) -> bool:
    return tenant.user_limits != NO_USER_LIMITS or bool(tenant.limits_by_user)
