"""The settings that `tgpu sim run` simulates: those of a file or the defaults, changed by
options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tgpu.cli.failures import bad_input

if TYPE_CHECKING:
    from tgpu.app.scheduling import Foresight
    from tgpu.core.prediction.runtimes import Predictor
    from tgpu.core.scheduling_config import SchedulingConfig
    from tgpu.settings import Settings
    from tgpu.simulate.run import Setting
    from tgpu.simulate.world import Cluster

TRUTH: Final = "truth"  # the name of the predictor that is told the future
_FORESEEING: Final = ("shortest", "quickest")  # policies that go by predictions
_OPTIONS: Final = {
    "scheduler.policy": "--policy",
    "scheduler.backfill": "--backfill",
    "scheduler.placement": "--placement",
    "scheduler.hold_after_seconds": "--hold-after",
    "prediction.predictor": "--predictor",
}


@dataclass(frozen=True, slots=True)
class SimulatedService:
    settings: "Settings"
    config: Path | None  # None: the defaults of the service
    keep_work: bool = False
    is_told_the_future: bool = False
    published: str | None = None  # the policy in place of the settings', to compare with

    @property
    def policy(self) -> str:
        return self.published or self.settings.scheduler.policy

    def scheduling(self, foresight: "Foresight | None" = None) -> "SchedulingConfig":
        from tgpu.app.scheduling import NO_FORESIGHT, scheduling_config

        found = scheduling_config(self.settings, foresight or NO_FORESIGHT)
        rules = found.rules
        if rules.preemption is not None and self.keep_work:
            rules = replace(rules, preemption=replace(rules.preemption, keeps_work=True))
        # No queue of a trace names an order of its own, and each would be asked in every cycle.
        return replace(found, rules=rules, policies={})

    def setting(self, history: Path | None) -> "Setting":
        from tgpu.app.refusal import CannotServe
        from tgpu.simulate.policies import PUBLISHED_NAMES, tick_of, time_slicing_of
        from tgpu.simulate.restart import LOSES_ALL, PUBLISHED
        from tgpu.simulate.run import Setting

        try:
            scheduling = self.scheduling()
        except CannotServe as error:
            known = f"{error}, {', '.join(PUBLISHED_NAMES)}"
            raise bad_input(self._named(known)) from error
        setting = Setting(
            scheduling,
            PUBLISHED if self.keep_work else LOSES_ALL,
            tick_ms=tick_of(self.policy),
            settles=self.published is None,
            time_slicing=time_slicing_of(self.policy),
        )
        make = self._predictor()
        return self._foreseeing(setting, make, history) if self._goes_by_predictions else setting

    def with_tenants(self, cluster: "Cluster") -> "Cluster":
        """The tenants of the settings as well; those that the cluster brings along go before."""
        cost = self.settings.billing.cost_per_gpu_hour
        known = {tenant.tenant_id for tenant in cluster.tenants}
        ours = [tenant.to_tenant(cost) for tenant in self.settings.tenants]
        new = tuple(tenant for tenant in ours if tenant.tenant_id not in known)
        return replace(cluster, tenants=(*cluster.tenants, *new)) if new else cluster

    def told(self) -> dict[str, Any]:
        """What of it goes into a result."""
        from tgpu.app.scheduling import recorded_values

        values = {**recorded_values(self.settings), "scheduler.policy": self.policy}
        if self.is_told_the_future:
            values["prediction.predictor"] = TRUTH
        return {
            "config": "" if self.config is None else self.config.name,
            "predictor": str(values["prediction.predictor"]) if self._goes_by_predictions else "",
            "keep_work": self.keep_work,
            "settings": values,
        }

    @property
    def _goes_by_predictions(self) -> bool:
        scheduler = self.settings.scheduler
        order = scheduler.backfill_over if scheduler.policy == "backfill" else scheduler.policy
        return order in _FORESEEING or scheduler.enable_preemption

    def _predictor(self) -> "Callable[[], Predictor]":
        from tgpu.cli.simulation.predictor import WatchedPredictor
        from tgpu.predictors import PREDICTOR_NAMES, Gbm, load_predictor

        name = "limit" if self.is_told_the_future else self.settings.prediction.predictor
        try:
            make = load_predictor(name)
        except ValueError as error:
            raise bad_input(self._named(f"prediction.predictor: {error}")) from error

        def made() -> "Predictor":
            found = make()
            if isinstance(found, Gbm):
                found.in_background = False  # the same result each time, on a busy machine too
            return found if name in PREDICTOR_NAMES else WatchedPredictor(found, name)

        return made

    def _foreseeing(
        self, setting: "Setting", make: "Callable[[], Predictor]", history: Path | None
    ) -> "Setting":
        from tgpu.simulate.foresight import SimulatedForesight
        from tgpu.simulate.past_jobs import read_past_jobs

        past = () if history is None else tuple(read_past_jobs(history))
        return replace(setting, foresight=SimulatedForesight(make, self.scheduling, past))

    def _named(self, problem: str) -> str:
        """By the option where it may come from one, by the setting where there is a file."""
        if self.config is not None:
            return problem
        for name, option in _OPTIONS.items():
            problem = problem.replace(f"{name}:", f"{option}:", 1)
        return problem


def simulated_service(
    config: Path | None, options: Mapping[str, object], *, keep_work: bool
) -> SimulatedService:
    """`options` has names of settings; None: as the file has it. The environment changes nothing:
    the same command gives the same result anywhere."""
    from tgpu.settings import SettingsError, load_settings
    from tgpu.simulate.policies import PUBLISHED_NAMES, service_policy_of

    given = dict(options)
    policy = given.get("scheduler.policy")
    published = policy if isinstance(policy, str) and policy in PUBLISHED_NAMES else None
    if published is not None:
        given["scheduler.policy"] = service_policy_of(published)
    is_told_the_future = given.get("prediction.predictor") == TRUTH
    if is_told_the_future:
        given["prediction.predictor"] = None
    try:
        settings = load_settings(config, given, {})
    except SettingsError as error:
        raise bad_input(str(error), "`tgpu config-sample` prints all settings") from error
    return SimulatedService(settings, config, keep_work, is_told_the_future, published)
