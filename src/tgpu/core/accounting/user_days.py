"""Today's GPU time of the users of a tenant that limits GPU-hours per day.

Nobody is metered whose tenant has no such limit: it would cost every start and end of a job. A
meter is a tenant's (`budget.py`), so a job that spans midnight is split to the millisecond.
"""

from collections.abc import Iterator, Mapping

from tgpu.core.accounting.budget import NO_SPEND, Spend, window_end
from tgpu.core.model.ids import TenantId
from tgpu.core.model.reasons import Reason, ReasonCode, reason
from tgpu.core.model.tenant import Tenant, Window

TenantUser = tuple[TenantId, str]


class UserDays:
    def __init__(self) -> None:
        self.spends: dict[TenantUser, Spend] = {}
        self._tenants: dict[TenantId, Tenant] = {}  # those that limit days
        self._loaded: set[TenantUser] = set()

    def set_tenant(self, tenant: Tenant, holds: Mapping[str, int], now: int) -> None:
        """`holds` is what its users have at this instant: from now on that counts."""
        tenant_id = tenant.tenant_id
        if not tenant.limits_users_days:
            if self._tenants.pop(tenant_id, None) is not None:
                self.spends = {key: s for key, s in self.spends.items() if key[0] != tenant_id}
            return
        if tenant_id not in self._tenants:
            for user, gpu_millis in holds.items():
                if user and (tenant_id, user) not in self.spends:
                    self.spends[tenant_id, user] = NO_SPEND.changed(gpu_millis, now)
        self._tenants[tenant_id] = tenant

    def is_limited(self, tenant_id: TenantId) -> bool:
        return tenant_id in self._tenants

    def meters(self, tenant_id: TenantId, user: str) -> bool:
        return bool(self._tenants) and tenant_id in self._tenants and bool(user)

    def count(self, tenant_id: TenantId, user: str, gpu_millis: int, at: int) -> None:
        if self.meters(tenant_id, user):
            self.spends[tenant_id, user] = self.spend(tenant_id, user).changed(gpu_millis, at)

    def step(self, now: int, by: int) -> None:
        self.spends = {key: spend.stepped(now, by) for key, spend in self.spends.items()}

    def load(self, spends: Mapping[TenantUser, Spend]) -> None:
        """As they were recorded, after the tenants; who has GPUs is known from the jobs: see
        `resume`."""
        for key, spend in spends.items():
            if self.is_limited(key[0]):
                self.spends[key] = spend._replace(gpu_millis=0)
                self._loaded.add(key)

    def resume(self, tenant_id: TenantId, user: str, gpu_millis: int, started_at: int) -> None:
        """A job had its GPUs before we were there: it counts from where its meter stood, and where
        none was recorded, from its start."""
        key = tenant_id, user
        if key not in self._loaded:
            self.count(tenant_id, user, gpu_millis, started_at)
        elif self.meters(tenant_id, user):
            spend = self.spends[key]
            self.spends[key] = spend._replace(gpu_millis=spend.gpu_millis + gpu_millis)

    def spend(self, tenant_id: TenantId, user: str) -> Spend:
        return self.spends.get((tenant_id, user), NO_SPEND)

    def refusals(self, now: int) -> dict[TenantUser, Reason]:
        """Who has had all of today's."""
        if not self._tenants:
            return {}
        found: dict[TenantUser, Reason] = {}
        for tenant_id, user, limit, spend in self._limited():
            spent = spend.upto(now).day
            if spent >= limit:
                found[tenant_id, user] = reason(
                    ReasonCode.USER_DAY,
                    tenant=tenant_id,
                    user=user,
                    spent=spent,
                    limit=limit,
                    until=window_end(Window.DAY, now) or 0,
                )
        return found

    def next_change_at(self, now: int) -> int | None:
        """When the day ends that keeps somebody from starting; None: nobody is kept."""
        return window_end(Window.DAY, now) if self.refusals(now) else None

    def _limited(self) -> Iterator[tuple[TenantId, str, int, Spend]]:
        """Who had any of what is limited: a limit is more than nothing, so nobody else is over."""
        for (tenant_id, user), spend in self.spends.items():
            tenant = self._tenants.get(tenant_id)
            if tenant is None or not tenant.enforce_quota:
                continue
            limit = tenant.limits_of(user).max_gpu_millis_ms_a_day
            if limit is not None:
                yield tenant_id, user, limit, spend
