"""The built-in policies, by name. Policies never import each other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Final

from tgpu.core.model.rules import BackfillMode, Rules
from tgpu.core.policies.attained import Adaptive, LeastAttained
from tgpu.core.policies.fair_share import FairShare
from tgpu.core.policies.fifo import Fifo
from tgpu.core.policies.priority import PriorityWithAging
from tgpu.core.policies.quickest import Quickest, RunTimeSource
from tgpu.core.policies.shortest import Predicted, Shortest
from tgpu.core.policies.slots import Order, OrderPolicy
from tgpu.core.state.cluster_state import State

BASE_NAMES: Final = ("priority", "fifo", "fairshare", "shortest")  # what `backfill` can be over
QUEUE_NAMES: Final = (*BASE_NAMES, "backfill")  # what a queue may choose for itself
# Those who run have a rank as well: they are about all that runs, and not about one queue.
_RANKED: Final[Mapping[str, Callable[[], OrderPolicy]]] = MappingProxyType(
    {"las": LeastAttained, "adaptive": Adaptive}
)
RANKED_NAMES: Final = tuple(_RANKED)
POLICY_NAMES: Final = (*QUEUE_NAMES, "quickest", *RANKED_NAMES)
TICK_MS: Final = 60_000  # ranks change with time alone: a simulation looks at least this often


@dataclass(frozen=True, slots=True)
class OrderOptions:
    """What the orders let people set."""

    aging_step: int = 1
    shortest_bound_seconds: int = 3600
    backfill_over: str = "priority"
    predicted: Predicted | None = None  # how long jobs will run, for `shortest`
    quickest_bound_seconds: int = 14 * 86_400
    # The same, and of those submitted next to them, for `quickest`.
    run_times: RunTimeSource | None = None


@dataclass(frozen=True, slots=True)
class BackfillOrderPolicy:
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
    if name in _RANKED:
        return _RANKED[name]()
    aging_ms = aging_seconds * 1000
    match name:
        case "priority":
            return PriorityWithAging(aging_ms, options.aging_step)
        case "fairshare":
            return FairShare(aging_ms, options.aging_step)
        case "shortest" | "quickest":
            return _foreseeing(name, options)
        case "fifo":
            return Fifo()
        case "backfill":
            return BackfillOrderPolicy(order_policy(options.backfill_over, aging_seconds, options))
    raise ValueError(f"no scheduling policy {name!r}; there are: {', '.join(POLICY_NAMES)}")


def _foreseeing(name: str, options: OrderOptions) -> OrderPolicy:
    if name == "shortest":
        return Shortest(options.shortest_bound_seconds * 1000, options.predicted)
    return Quickest(options.quickest_bound_seconds * 1000, options.run_times)


def order_policies(
    aging_seconds: int = 60, options: OrderOptions | None = None
) -> dict[str, OrderPolicy]:
    """By name: what a queue may choose for its own jobs."""
    return {name: order_policy(name, aging_seconds, options) for name in QUEUE_NAMES}


def rules_under(name: str, rules: Rules) -> Rules:
    """The rules as they are under this policy."""
    if name in RANKED_NAMES:
        # Greedy backfill: others are preempted for a job that cannot start when it is its turn,
        # and these orders have a bound of their own.
        return replace(rules, backfill=BackfillMode.GREEDY, hold_after_ms=None)
    if name == "backfill" and rules.backfill is not BackfillMode.CONSERVATIVE:
        return replace(rules, backfill=BackfillMode.EASY)
    return rules
