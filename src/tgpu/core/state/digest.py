"""A digest of a state, to compare two states."""

from dataclasses import astuple
from hashlib import sha256

from tgpu.core.state.cluster_state import State


def digest(state: State) -> str:
    """Equal for states that no decision can tell apart, however they came about."""
    ledger = state.ledger
    parts: list[object] = [
        sorted((entry.job.job_id, repr((entry.job, entry.progress))) for entry in state.entries()),
        sorted((use.tenant.tenant_id, repr(use.tenant)) for use in ledger.tenants.values()),
        sorted((key, repr(use.queue)) for key, use in ledger.queues.items()),
        sorted((node_id, repr(ledger.node(node_id).node)) for node_id in ledger.node_ids()),
        sorted((key, repr(booking)) for key, booking in ledger.bookings.items()),
        sorted((key, astuple(usage)) for key, usage in state.usage.items()),
        sorted((str(name), count) for name, count in state.counts.items() if count),
        sorted((repr(owner), meter) for owner, meter in state.meters.by_owner.items()),
        sorted((key, spend[:-1]) for key, spend in state.budgets.spends.items()),
        sorted((key, spend[:-1]) for key, spend in state.user_days.spends.items()),
        state.unsatisfiable(),
        ledger.request_profile,
    ]
    return sha256(repr(parts).encode()).hexdigest()
