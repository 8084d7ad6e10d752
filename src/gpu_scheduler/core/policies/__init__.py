"""The built-in orders, by name. Policies never import each other."""

from gpu_scheduler.core.policies.fifo import Fifo
from gpu_scheduler.core.policies.priority import PriorityWithAging
from gpu_scheduler.core.policy import OrderPolicy

POLICY_NAMES = ("priority", "fifo")


def order_policy(name: str, aging_seconds: int) -> OrderPolicy:
    """The order with this name; ValueError lists the names there are."""
    if aging_seconds <= 0:
        raise ValueError(f"aging_seconds must be at least 1, not {aging_seconds}")
    if name == Fifo.name:
        return Fifo()
    if name == PriorityWithAging.name:
        return PriorityWithAging(aging_ms=aging_seconds * 1000)
    raise ValueError(f"no scheduling policy {name!r}; there are: {', '.join(POLICY_NAMES)}")
