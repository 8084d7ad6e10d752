"""Predictions inside a simulation: what ended teaches, as it does in the service."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tgpu.core.calibration import PastJob
from tgpu.core.ids import DEFAULT_TENANT
from tgpu.core.job import Job
from tgpu.core.neighbours import Lookout, Neighbours
from tgpu.core.policies import OrderOptions
from tgpu.core.predict import Forecast, Predictor
from tgpu.core.rules import Rules
from tgpu.simulate.policies import SimulatedPolicy


@dataclass(frozen=True, slots=True)
class Foresight:
    """How to predict; each partition learns by itself, as a cluster of its own."""

    make: Callable[[], Predictor]
    policy: Callable[[OrderOptions], SimulatedPolicy]
    options: OrderOptions = field(default_factory=OrderOptions)
    past: Sequence[PastJob] = ()  # of before the first arrival, in any order


class Learner:
    """What one partition knows of how long jobs run."""

    def __init__(self, foresight: Foresight, before: int) -> None:
        """Only what was submitted before this instant counts as the past."""
        self._forecast = Forecast(foresight.make())
        self._neighbours = Neighbours()
        past = [one for one in foresight.past if one.submitted_at < before]
        self._past = sorted(past, key=lambda one: one.ended_at, reverse=True)
        self.policy = foresight.policy(
            replace(
                foresight.options,
                predicted=self._forecast,
                tells=Lookout(self._forecast, self._neighbours),
            )
        )

    def rules(self, rules: Rules) -> Rules:
        """Who is about to end is spared by what is predicted too."""
        if rules.preemption is None:
            return rules
        return replace(rules, preemption=replace(rules.preemption, left=self._forecast.left_ms))

    def reach(self, now: int) -> None:
        """Learn what of the past is over by now."""
        while self._past and self._past[-1].ended_at <= now:
            one = self._past.pop()
            facts = one.facts
            if not facts.tenant_id:  # as the jobs of a trace that names no tenants
                facts = replace(facts, tenant_id=DEFAULT_TENANT)
            self._forecast.learn_of(facts, one.duration_ms, one.ended_at)

    def began(self, job: Job, now: int) -> None:
        self._neighbours.began(job, now)

    def ended(self, job: Job, ran_ms: int, now: int, *, was_preempted: bool) -> None:
        self._neighbours.ended(job, ran_ms)
        if not was_preempted:  # else its last attempt was not all of it
            self._forecast.learn(job, ran_ms, now)

    def came_back(self, job: Job) -> None:
        self._neighbours.came_back(job)
