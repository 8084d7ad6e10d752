"""What if: simulates the past as it was and with changes, compared with the record."""

from collections.abc import Mapping
from dataclasses import dataclass

from tgpu.app.replaying import predictor_for
from tgpu.app.scheduling import (
    NO_FORESIGHT,
    as_of_today,
    former_note,
    former_policy,
    scheduling_config,
    settings_of,
)
from tgpu.core.model.events import Scalar
from tgpu.core.model.tenant import OverBudget
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.journal.compare import ComparedFigures, as_it_was, as_it_went, figures
from tgpu.journal.lines import Journal, Values
from tgpu.journal.rebuild import RecordedForesight
from tgpu.journal.recorded_past import RecordedPast, read_past
from tgpu.journal.resimulate import NO_CHANGES, Changes, MakeScheduling, Tell, resimulate
from tgpu.settings import Settings
from tgpu.text.durations import rounded_text
from tgpu.text.plurals import plural


@dataclass(frozen=True, slots=True)
class Compared:
    past: RecordedPast
    really: ComparedFigures
    simulated: ComparedFigures  # decided again with the settings of then
    changed: ComparedFigures | None  # None: nothing was to be changed
    cost_per_gpu_hour: float
    notes: tuple[str, ...]


def past_of(
    journal: Journal, since: int | None, until: int | None, tell: Tell | None = None
) -> RecordedPast | None:
    return read_past(journal, lambda: predictor_for(journal), since, until, tell)


def compare(
    past: RecordedPast,
    changes: Changes = NO_CHANGES,
    overrides: Mapping[str, Scalar] | None = None,
    *,
    tell: Tell | None = None,
) -> Compared:
    """Raises CannotServe where a policy is not there."""
    usual, _ = settings_of(as_of_today(past.values or {}))
    cost = usual.billing.cost_per_gpu_hour
    same = resimulate(past, _maker({}), tell=tell)
    # The GPUs that there were are the same whoever decided.
    really = figures(past, as_it_was(past), same.offered, cost)
    simulated = figures(past, as_it_went(past, same), same.offered, cost)
    changed = None
    if overrides or changes != NO_CHANGES:
        other = resimulate(past, _maker(overrides or {}), changes, tell=tell)
        changed = figures(past, as_it_went(past, other), other.offered, cost)
    return Compared(past, really, simulated, changed, cost, _notes(past, usual))


def check_overrides(overrides: Mapping[str, Scalar]) -> None:
    """ValueError names a setting that is none, or whose value cannot be."""
    for key, value in overrides.items():
        _, unknown = settings_of({key: value})
        if unknown:
            raise ValueError(f"{key}={value} cannot be set")
    settings, _ = settings_of(overrides)
    scheduling_config(settings, NO_FORESIGHT)


def _maker(overrides: Mapping[str, Scalar]) -> MakeScheduling:
    def make(values: Values | None, foresight: RecordedForesight) -> SchedulingConfig:
        settings, _ = settings_of({**as_of_today(values or {}), **overrides})
        return scheduling_config(settings, foresight)

    return make


def _notes(past: RecordedPast, settings: Settings) -> tuple[str, ...]:
    found = ["users would have behaved differently had they waited less or more"]
    if past.cut:
        jobs = _jobs(len(past.cut))
        found.append(f"{jobs} still ran at the end: cut off there, and in the simulation too")
    waiting = len([one for one in past.unknown if past.lives[one].ended_at is None])
    if waiting:
        found.append(
            f"{_jobs(waiting)} never ended: if the simulation starts them, they run for "
            f"{rounded_text(past.guess_ms / 1000)}, as half of the others do at most"
        )
    again = sum(life.preemptions > 0 for life in past.lives.values())
    if again or settings.scheduler.enable_preemption:
        found.append("a preempted job frees its GPUs at once and loses all its work")
    if past.values is None:
        found.append("no settings are recorded: the defaults are used instead")
    elif (former := former_policy(past.values)) is not None:
        found.append(former_note(former))
    if settings.quota.provider != "local":
        found.append(f"the quota provider {settings.quota.provider} is not asked")
    if any(_stops(past)):
        found.append("budgets that end running jobs are not simulated")
    return tuple(found)


def _stops(past: RecordedPast) -> list[bool]:
    ledger = past.beginning().state.ledger
    budgets = (use.tenant.budget for use in ledger.tenants.values())
    return [one is not None and one.action is OverBudget.STOP for one in budgets]


def _jobs(count: int) -> str:
    return plural(f"{count:,}", "job")
