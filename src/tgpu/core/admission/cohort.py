"""Tenants of one cohort lend each other the GPUs of their quotas that they do not use.

A tenant's quota (`max_gpu_millis`) has a part that is lent while idle (`lend_millis`) and a rest
that is guaranteed to it. The lendable parts of all members make one pool; what a member has above
its guaranteed part comes out of that pool, be it its own or another's. Only GPUs in all are lent:
limits by type, of memory, cores and jobs stay hard.

Members without a quota, or whose quota is not enforced, neither lend nor borrow: nothing limits
them, and nobody could take anything back from them.
"""

from collections.abc import Iterator
from typing import Final

from tgpu.core.capacity.ledger import CohortPool, Ledger, TenantUse
from tgpu.core.model.ids import TenantId
from tgpu.core.model.job import JobClass
from tgpu.core.model.reasons import Reason, ReasonCode, reason
from tgpu.core.model.tenant import Tenant

_EMPTY: Final = CohortPool()


def pool_of(ledger: Ledger, cohort: str) -> CohortPool:
    return ledger.pools.get(cohort, _EMPTY)


def borrowed(ledger: Ledger, tenant_id: TenantId) -> int:
    """GPU thousandths a tenant has beyond its own quota; 0 for one that is in no cohort."""
    return _borrowed(ledger.tenant(tenant_id))


def lent(ledger: Ledger, tenant_id: TenantId) -> int:
    """How much of its unused quota a tenant could not have at once, because others have it."""
    use = ledger.tenant(tenant_id)
    if not use.tenant.shares_quota:
        return 0
    idle = max(0, (use.tenant.max_gpu_millis or 0) - use.gpu_millis)
    kept = max(0, use.tenant.guaranteed_millis - use.gpu_millis)
    return max(0, idle - kept - pool_of(ledger, use.tenant.cohort).free)


def ceiling(ledger: Ledger, tenant: Tenant) -> int | None:
    """The most GPUs it could ever have at once, if all others were idle; None: no limit."""
    nominal = tenant.max_gpu_millis
    if nominal is None or not tenant.shares_quota:
        return nominal
    most = tenant.guaranteed_millis + pool_of(ledger, tenant.cohort).size
    return most if tenant.borrow_millis is None else min(most, nominal + tenant.borrow_millis)


def would_borrow(ledger: Ledger, job_class: JobClass) -> bool:
    """Whether one more job of this class would take its tenant beyond its own quota."""
    use = ledger.tenant(job_class.tenant_id)
    nominal = use.tenant.max_gpu_millis
    if nominal is None or not use.tenant.shares_quota:
        return False
    return use.gpu_millis + job_class.request.gpu_millis > nominal


def may_reclaim(ledger: Ledger, job_class: JobClass) -> bool:
    """Whether a job that cannot start may have quota back that others of its cohort borrowed.

    Its tenant stays within its own quota, and somebody else is beyond theirs. Whether it then
    starts is for the trial to find out, with `refuse` and `place`.
    """
    use = ledger.tenant(job_class.tenant_id)
    if not use.tenant.cohort or not use.tenant.shares_quota:
        return False
    if use.gpu_millis + job_class.request.gpu_millis > (use.tenant.max_gpu_millis or 0):
        return False
    return any(_borrowed(other) for other in _members(ledger, use.tenant.cohort))


def over_cohort_quota(ledger: Ledger, use: TenantUse, requested: int) -> Reason | None:
    """What keeps a tenant that shares from having this much more; None lets it."""
    tenant, current = use.tenant, use.gpu_millis
    nominal, after = tenant.max_gpu_millis or 0, use.gpu_millis + requested
    kept = tenant.guaranteed_millis
    # Also where others are beyond the pool, after a quota was lowered: this part was never in it.
    if after <= kept:
        return None
    facts: dict[str, int | str] = {
        "tenant": tenant.tenant_id,
        "cohort": tenant.cohort,
        "requested": requested,
        "nominal": nominal,
        "current": current,
    }
    borrow = tenant.borrow_millis
    if borrow is not None and after > nominal + borrow:
        return reason(ReasonCode.BORROW_LIMIT, **facts, borrow=borrow)
    pool = pool_of(ledger, tenant.cohort)
    if pool.taken - max(0, current - kept) + after - kept <= pool.size:
        return None
    if after <= nominal:
        others = sum(_borrowed(other) for other in _members(ledger, tenant.cohort))
        return reason(ReasonCode.QUOTA_LENT, **facts, lent=others)
    return reason(ReasonCode.COHORT_QUOTA, **facts, pool=pool.size, free=pool.free)


def _borrowed(use: TenantUse) -> int:
    tenant = use.tenant
    return max(0, use.gpu_millis - (tenant.max_gpu_millis or 0)) if tenant.shares_quota else 0


def _members(ledger: Ledger, cohort: str) -> Iterator[TenantUse]:
    for tenant_id in ledger.cohorts.get(cohort, ()):
        use = ledger.tenants[tenant_id]
        if use.tenant.shares_quota:
            yield use
