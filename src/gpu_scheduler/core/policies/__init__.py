"""The built-in orders, by name. Policies never import each other."""

from typing import Final

from gpu_scheduler.core.policies.fair_share import FairShare
from gpu_scheduler.core.policies.fifo import Fifo
from gpu_scheduler.core.policies.priority import PriorityWithAging
from gpu_scheduler.core.policy import OrderPolicy

POLICY_NAMES: Final = ("priority", "fifo", "fairshare", "backfill")


def order_policy(name: str, aging_seconds: int) -> OrderPolicy:
    """The order with this name; ValueError lists the names there are."""
    if aging_seconds < 1:
        raise ValueError(f"aging_seconds must be at least 1, not {aging_seconds}")
    match name:
        case "priority":
            return PriorityWithAging(aging_ms=aging_seconds * 1000)
        case "backfill":
            return Backfill(aging_ms=aging_seconds * 1000)
        case "fairshare":
            return FairShare(aging_ms=aging_seconds * 1000)
        case "fifo":
            return Fifo()
    raise ValueError(f"no scheduling policy {name!r}; there are: {', '.join(POLICY_NAMES)}")


class Backfill(PriorityWithAging):
    """By priority; whatever fits beside a larger job that cannot start may pass it."""

    name = "backfill"
