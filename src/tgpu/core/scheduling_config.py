"""The scheduling configuration as one value, for the service, projections and simulations."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tgpu.core.accounting.meter import DEFAULT_HALF_LIFE_MS
from tgpu.core.cycle import CycleObserver, schedule
from tgpu.core.model.job import JobClass
from tgpu.core.model.plan import BackfillReservation, Plan
from tgpu.core.model.rules import PLAIN, PlacementRule, Rules
from tgpu.core.policies.slots import ChoicePolicy, OrderPolicy, Policy
from tgpu.core.state.cluster_state import State


@dataclass(frozen=True, slots=True)
class SchedulingConfig:
    """All that a cycle goes by besides the state. What is known of run times is in the policies
    and the rules that go by it."""

    policy: Policy
    rules: Rules = PLAIN
    placement: PlacementRule = PlacementRule.FRAGMENTATION
    policies: Mapping[str, OrderPolicy] = field(default_factory=dict)  # for queues that name one
    half_life_ms: int = DEFAULT_HALF_LIFE_MS  # of fair shares
    most_jobs: int | None = None  # that run at once; None: as many as there is room for

    def set_up(self, state: State) -> None:
        """Have a state reckon by it, before anything is decided on it."""
        state.ledger.placement_rule = self.placement
        state.ledger.most_jobs = self.most_jobs
        state.meters.half_life_ms = self.half_life_ms

    def decide(
        self,
        state: State,
        now: int,
        promises: Sequence[BackfillReservation] = (),
        refused_classes: Collection[JobClass] = frozenset(),
        observer: CycleObserver | None = None,
    ) -> Plan:
        """One cycle: `core.cycle.schedule`."""
        return schedule(
            state,
            now,
            self.policy,
            refused_classes,
            rules=self.rules,
            policies=self.policies,
            promises=promises,
            observer=observer,
        )

    def by(self, policy: Policy) -> "SchedulingConfig":
        """The same in another order."""
        return self if policy is self.policy else replace(self, policy=policy)

    def asking_nobody(self) -> "SchedulingConfig":
        """An order that only another package knows may count how often it is asked: the oldest
        take its place."""
        if not isinstance(self.policy, ChoicePolicy):
            return self
        return self.by(ChoicePolicy(self.policy.name, lambda _, jobs: jobs[0] if jobs else None))


class CycleContext(NamedTuple):
    """How the next cycle of a service would decide: also what the last one promised, and the
    classes that somebody else refused."""

    config: SchedulingConfig
    promises: Sequence[BackfillReservation] = ()
    refused_classes: Collection[JobClass] = frozenset()
