"""Predictions in a simulation, which learn from ended jobs as in the service."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tgpu.core.model.ids import DEFAULT_TENANT
from tgpu.core.model.job import Job
from tgpu.core.policies import OrderOptions, order_policy
from tgpu.core.policies.quickest import RunTimeSource
from tgpu.core.prediction.calibration import PastJob
from tgpu.core.prediction.nearby_submissions import NearbyRunTimes, NearbySubmissions
from tgpu.core.prediction.runtimes import Forecast, Predictor
from tgpu.core.scheduling_config import SchedulingConfig

# The configuration that goes by what a learner knows.
Configure = Callable[["Learner"], SchedulingConfig]


@dataclass(frozen=True, slots=True)
class SimulatedForesight:
    """How to predict; each partition learns by itself, as a cluster of its own."""

    make: Callable[[], Predictor]
    configure: Configure
    past: Sequence[PastJob] = ()  # of before the first arrival, in any order


def by_what_is_learned(
    config: SchedulingConfig, name: str, options: OrderOptions | None = None
) -> Configure:
    """The same, in the order with this name as far as predictions go: also who is about to end is
    spared by them."""

    def configure(learner: "Learner") -> SchedulingConfig:
        known = replace(
            options or OrderOptions(), predicted=learner.of_class, run_times=learner.run_times
        )
        rules = config.rules
        if rules.preemption is not None:
            rules = replace(rules, preemption=replace(rules.preemption, left=learner.left_ms))
        return replace(config, policy=order_policy(name, 60, known), rules=rules)

    return configure


class Learner:
    """What one partition knows of how long jobs run."""

    def __init__(self, foresight: SimulatedForesight, before: int) -> None:
        """Only what was submitted before this instant counts as the past."""
        self._forecast = Forecast(foresight.make())
        self._nearby_submissions = NearbySubmissions()
        past = [one for one in foresight.past if one.submitted_at < before]
        self._past = sorted(past, key=lambda one: one.ended_at, reverse=True)
        self.of_class = self._forecast.__call__
        self.left_ms = self._forecast.left_ms
        self.run_times: RunTimeSource | None = NearbyRunTimes(
            self._forecast, self._nearby_submissions
        )
        self.scheduling = foresight.configure(self)

    def reach(self, now: int) -> None:
        """Learn what of the past is over by now."""
        while self._past and self._past[-1].ended_at <= now:
            one = self._past.pop()
            facts = one.facts
            if not facts.tenant_id:  # as the jobs of a trace that names no tenants
                facts = replace(facts, tenant_id=DEFAULT_TENANT)
            self._forecast.learn_of(facts, one.duration_ms, one.ended_at)

    def began(self, job: Job, now: int) -> None:
        self._nearby_submissions.began(job, now)

    def ended(self, job: Job, ran_ms: int, now: int, *, was_preempted: bool) -> None:
        self._nearby_submissions.ended(job, ran_ms)
        if not was_preempted:  # else its last attempt was not all of it
            self._forecast.learn(job, ran_ms, now)

    def came_back(self, job: Job) -> None:
        self._nearby_submissions.came_back(job)
