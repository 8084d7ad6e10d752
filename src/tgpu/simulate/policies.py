"""The policies of a simulation by name: those of a service, and published ones to compare with."""

from typing import Final

from tgpu.core.policies import RANKED_NAMES, TICK_MS, OrderOptions, rules_under
from tgpu.core.policy import Policy
from tgpu.core.rules import Rules
from tgpu.policies import load_policy, policy_names
from tgpu.simulate.time_slicing import TimeSliced
from tgpu.simulate.tiresias import Tiresias

COMPARED_NAMES: Final = (Tiresias.name,)

SimulatedPolicy = Policy | TimeSliced


def simulated_policy(name: str, options: OrderOptions | None = None) -> SimulatedPolicy:
    """ValueError says which there are."""
    if name == Tiresias.name:
        return Tiresias()
    known = [*policy_names(), *COMPARED_NAMES]
    if name not in known:
        raise ValueError(f"no scheduling policy {name!r}; there are: {', '.join(known)}")
    return load_policy(name, 60, options)


def rules_of(name: str, rules: Rules) -> Rules:
    """The rules as they are under this policy."""
    return rules_under(RANKED_NAMES[0] if name in COMPARED_NAMES else name, rules)


def tick_of(name: str) -> int | None:
    """How often somebody must look at least, in ms; None: where something happens is enough."""
    return TICK_MS if name in (*RANKED_NAMES, *COMPARED_NAMES) else None
