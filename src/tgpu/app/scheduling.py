"""How jobs are scheduled, as the core's values, and the settings that this follows from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import ValidationError

from tgpu.core.events import Scalar
from tgpu.core.job import Job, JobClass
from tgpu.core.policies.quickest import Tells
from tgpu.core.policy import OrderPolicy, Policy
from tgpu.core.rules import PlacementRule, Rules
from tgpu.settings import Settings

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
    def lookout(self) -> Tells | None:
        """For the order `quickest`."""

    def of_class(self, job_class: JobClass, now: int) -> int | None: ...

    def left_ms(self, job: Job, elapsed_ms: int, now: int) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What a cycle is told besides the state."""

    policy: Policy
    policies: Mapping[str, OrderPolicy]
    rules: Rules
    placement: PlacementRule
    half_life_ms: int  # of fair shares
    most_jobs: int | None  # that run at once


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


# Policies that services had once, with the one that decides in their place where the past does.
_FORMER_POLICIES: Final = {"tiresias": "las"}


def former_policy(values: RecordedValues) -> str | None:
    """The policy on record, if no service has it any more."""
    name = values.get(_POLICY)
    return name if isinstance(name, str) and name in _FORMER_POLICIES else None


def former_note(name: str) -> str:
    return f"no service has the policy {name} any more: {_FORMER_POLICIES[name]} took its place"


def as_of_today(values: RecordedValues) -> RecordedValues:
    """What is on record, with a policy that there still is."""
    former = former_policy(values)
    return values if former is None else {**values, _POLICY: _FORMER_POLICIES[former]}


def settings_of(values: RecordedValues) -> tuple[Settings, tuple[str, ...]]:
    """Settings with what is on record, and the names of what this version does not know."""
    found: dict[str, dict[str, object]] = {}
    unknown = []
    for key, value in values.items():
        section, _, name = key.partition(".")
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
