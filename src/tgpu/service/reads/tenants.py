"""Tenants and their queues, looked up in a state."""

from tgpu.core.capacity.ledger import TenantUse
from tgpu.core.errors import NotFound
from tgpu.core.model.ids import DEFAULT_QUEUE, TenantId
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.model.usage import NO_USAGE, GpuTimeUsage
from tgpu.core.state.cluster_state import State


def tenant_use(state: State, tenant_id: TenantId) -> TenantUse:
    use = state.ledger.tenants.get(tenant_id)
    if use is None:
        raise no_tenant(tenant_id)
    return use


def no_tenant(tenant_id: str) -> NotFound:
    return NotFound("tenant", tenant_id, "`tgpu tenants list` shows those there are")


def queue_of(state: State, tenant_id: TenantId, name: str) -> TenantQueue:
    """A tenant's queue; the default one is there without having been made."""
    tenant_use(state, tenant_id)
    use = state.ledger.queue(tenant_id, name)
    if use is not None:
        return use.queue
    if name == DEFAULT_QUEUE:
        return TenantQueue(tenant_id, name)
    raise NotFound("queue", f"{tenant_id}:{name}", "`tgpu queues list` shows those there are")


def queues_of(state: State, tenant_id: TenantId | None) -> list[TenantQueue]:
    """All queues of a tenant, or of all, higher ones first."""
    tenants = state.ledger.tenants if tenant_id is None else {tenant_id: None}
    names = {(owner, DEFAULT_QUEUE) for owner in tenants} | {
        key for key in state.ledger.queues if key[0] in tenants
    }
    found = [queue_of(state, owner, name) for owner, name in names]
    return sorted(found, key=lambda queue: (-queue.priority, queue.tenant_id, queue.name))


def usage_total(state: State, tenant_id: TenantId, queue: str | None = None) -> GpuTimeUsage:
    """What a tenant, or one of its queues, has used up so far."""
    used = NO_USAGE
    for (owner, name), usage in state.usage.items():
        if owner == tenant_id and queue in (None, name):
            used += usage
    return used
