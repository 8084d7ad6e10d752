"""The one place that turns settings into a scheduling configuration, and its record."""

from collections.abc import Mapping
from typing import Final, Protocol

from pydantic import ValidationError

from tgpu.app.refusal import CannotServe
from tgpu.core.model.events import Scalar
from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.rules import BackfillMode, PlacementRule, PreemptionRules, Rules
from tgpu.core.model.units import SECOND
from tgpu.core.policies import OrderOptions, order_policies, rules_under
from tgpu.core.policies.quickest import RunTimeSource
from tgpu.core.policies.slots import Policy
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.policies import load_policy
from tgpu.settings import Settings
from tgpu.settings.setting_aliases import RENAMED

RecordedValues = Mapping[str, Scalar | tuple[Scalar, ...]]

_SECTION: Final = "scheduler"
_POLICY: Final = "scheduler.policy"
# What of the other sections decides who starts, or is asked about afterwards.
_OTHERS: Final = ("prediction.predictor", "quota.provider", "billing.cost_per_gpu_hour")
# What of the section does not: it would only make records differ.
_LEFT_OUT: Final = frozenset({"max_queue_size"})


class Foresight(Protocol):
    """How long jobs will run."""

    @property
    def run_times(self) -> RunTimeSource | None:
        """For the order `quickest`."""

    def of_class(self, job_class: JobClass, now: int) -> int | None: ...

    def left_ms(self, job: Job, elapsed_ms: int, now: int) -> int | None: ...


class _NoForesight:
    """Nobody knows anything of run times."""

    run_times = None

    def of_class(self, job_class: JobClass, now: int) -> int | None:
        return None

    def left_ms(self, job: Job, elapsed_ms: int, now: int) -> int | None:
        return None


NO_FORESIGHT: Final[Foresight] = _NoForesight()


def scheduling_config(settings: Settings, foresight: Foresight) -> SchedulingConfig:
    """How a service with these settings decides. CannotServe names a policy that is not there."""
    scheduler = settings.scheduler
    options = _order_options(settings, foresight)
    return SchedulingConfig(
        _policy(settings, options),
        _rules(settings, foresight),
        PlacementRule(scheduler.placement),
        order_policies(scheduler.aging_seconds, options),
        round(scheduler.fair_share_half_life_hours * 3_600_000),
        scheduler.max_running_jobs or None,
    )


def recorded_values(settings: Settings) -> RecordedValues:
    """The settings that decide, by name, to be put on record."""
    section = settings.scheduler.model_dump(mode="json")
    values: dict[str, Scalar | tuple[Scalar, ...]] = {
        f"{_SECTION}.{name}": tuple(value) if isinstance(value, list) else value
        for name, value in section.items()
        if name not in _LEFT_OUT
    }
    for key in _OTHERS:
        name, _, field = key.partition(".")
        values[key] = getattr(getattr(settings, name), field)
    return values


_OLD_NAMES: Final = {key.name: key.to for key in RENAMED if key.is_old}
# Policies that services had once, with the one that decides in their place where the past does.
_FORMER_POLICIES: Final = {"tiresias": "las"}


def former_policy(values: RecordedValues) -> str | None:
    """The policy on record, if no service has it any more."""
    name = values.get(_POLICY)
    return name if isinstance(name, str) and name in _FORMER_POLICIES else None


def former_note(name: str) -> str:
    return f"no service has the policy {name} any more: {_FORMER_POLICIES[name]} replaced it"


def as_of_today(values: RecordedValues) -> RecordedValues:
    """What is on record, with a policy that there still is."""
    former = former_policy(values)
    return values if former is None else {**values, _POLICY: _FORMER_POLICIES[former]}


def settings_of(values: RecordedValues) -> tuple[Settings, tuple[str, ...]]:
    """Settings with what is on record, and the names of what this version does not know."""
    found: dict[str, dict[str, object]] = {}
    unknown = []
    for key, value in values.items():
        section, _, name = _OLD_NAMES.get(key, key).partition(".")
        model = Settings.model_fields.get(section)
        fields = getattr(model.annotation, "model_fields", {}) if model is not None else {}
        if name in fields:
            found.setdefault(section, {})[name] = list(value) if isinstance(value, tuple) else value
        else:
            unknown.append(key)
    while True:
        try:
            return Settings.model_validate(found), tuple(sorted(unknown))
        except ValidationError as error:
            section, name = (str(part) for part in (*error.errors()[0]["loc"], "", "")[:2])
            if found.get(section, {}).pop(name, None) is None:
                raise
            unknown.append(f"{section}.{name}")  # a value that this version does not take


def _policy(settings: Settings, options: OrderOptions) -> Policy:
    try:
        scheduler = settings.scheduler
        return load_policy(scheduler.policy, scheduler.aging_seconds, options)
    except ValueError as error:
        raise CannotServe(f"scheduler.policy: {error}") from error


def _order_options(settings: Settings, foresight: Foresight) -> OrderOptions:
    scheduler = settings.scheduler
    return OrderOptions(
        scheduler.aging_step,
        scheduler.shortest_bound_seconds,
        scheduler.backfill_over,
        foresight.of_class,
        scheduler.quickest_bound_seconds,
        foresight.run_times,
    )


def _rules(settings: Settings, foresight: Foresight) -> Rules:
    scheduler = settings.scheduler
    rules = Rules(
        backfill=BackfillMode(scheduler.backfill),
        depth=scheduler.reservation_depth,
        hold_after_ms=scheduler.hold_after_seconds * SECOND or None,
        preemption=_preemption(settings, foresight) if scheduler.enable_preemption else None,
    )
    return rules_under(scheduler.policy, rules)


def _preemption(settings: Settings, foresight: Foresight) -> PreemptionRules:
    scheduler = settings.scheduler
    return PreemptionRules(
        margin=scheduler.preempt_margin,
        min_run_ms=scheduler.preempt_min_run_seconds * SECOND,
        spare_ms=scheduler.preempt_spare_seconds * SECOND,
        most_times=scheduler.preempt_most_times,
        left=foresight.left_ms,
    )
