"""The built-in orders, by name. Policies never import each other."""

from dataclasses import dataclass
from typing import ClassVar, Final

from gpu_scheduler.core.policies.fair_share import FairShare
from gpu_scheduler.core.policies.fifo import Fifo
from gpu_scheduler.core.policies.priority import PriorityWithAging
from gpu_scheduler.core.policies.shortest import Predicted, Shortest
from gpu_scheduler.core.policy import Order, OrderPolicy
from gpu_scheduler.core.state import State

POLICY_NAMES: Final = ("priority", "fifo", "fairshare", "shortest", "backfill")
BASE_NAMES: Final = POLICY_NAMES[:-1]  # what `backfill` can be over


@dataclass(frozen=True, slots=True)
class OrderOptions:
    """What the orders let people set."""

    aging_step: int = 1
    shortest_bound_seconds: int = 3600
    backfill_over: str = "priority"
    predicted: Predicted | None = None  # how long jobs will run, for `shortest`


@dataclass(frozen=True, slots=True)
class Backfill:
    """The order of another policy; who fits beside a larger job that cannot start may pass it."""

    name: ClassVar[str] = "backfill"

    base: OrderPolicy

    def at(self, state: State, now: int) -> Order:
        return self.base.at(state, now)


def order_policy(
    name: str, aging_seconds: int = 60, options: OrderOptions | None = None
) -> OrderPolicy:
    """The order with this name; ValueError lists the names there are."""
    options = options or OrderOptions()
    if aging_seconds < 1:
        raise ValueError(f"aging_seconds must be at least 1, not {aging_seconds}")
    if options.aging_step < 0:
        raise ValueError(f"aging_step must be at least 0, not {options.aging_step}")
    if options.backfill_over not in BASE_NAMES:
        raise ValueError(
            f"backfill goes over one of {', '.join(BASE_NAMES)}, not {options.backfill_over!r}"
        )
    aging_ms = aging_seconds * 1000
    match name:
        case "priority":
            return PriorityWithAging(aging_ms, options.aging_step)
        case "fairshare":
            return FairShare(aging_ms, options.aging_step)
        case "shortest":
            return Shortest(options.shortest_bound_seconds * 1000, options.predicted)
        case "fifo":
            return Fifo()
        case "backfill":
            return Backfill(order_policy(options.backfill_over, aging_seconds, options))
    raise ValueError(f"no scheduling policy {name!r}; there are: {', '.join(POLICY_NAMES)}")


def order_policies(
    aging_seconds: int = 60, options: OrderOptions | None = None
) -> dict[str, OrderPolicy]:
    """All of them, by name: what a queue may choose for its own jobs."""
    return {name: order_policy(name, aging_seconds, options) for name in POLICY_NAMES}
