"""Repeats a past cycle from the journal and the settings of that time, and describes it."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from tgpu import __version__
from tgpu.api.translate.sentences import reason_model
from tgpu.app.refusal import CannotServe
from tgpu.app.scheduling import (
    as_of_today,
    former_note,
    former_policy,
    scheduling_config,
    settings_of,
)
from tgpu.core.cycle import CycleObserver
from tgpu.core.explain.ahead import Ahead, ahead_of
from tgpu.core.explain.answer import why
from tgpu.core.explain.watched import watch_cycle
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.plan import Plan
from tgpu.core.model.rules import BackfillMode
from tgpu.core.model.units import GPU, SECOND
from tgpu.core.policies.slots import ChoicePolicy
from tgpu.core.prediction.runtimes import Predictor
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.core.state.cluster_state import Entry, State
from tgpu.core.state.digest import digest
from tgpu.journal.lines import Journal, Values
from tgpu.journal.rebuild import Rebuilt, Tell
from tgpu.journal.replay import (
    JournalWalk,
    Moment,
    Promises,
    ReplayTarget,
    Step,
    decided,
    differences,
    find,
    place_text,
    recorded,
)
from tgpu.predictors import load_predictor
from tgpu.settings import Settings
from tgpu.text.gpu_names import gpu_name
from tgpu.text.instants import utc_millis_text
from tgpu.wire.replay_v1 import (
    ReplayAnswer,
    ReplayDifference,
    ReplayJob,
    ReplayOfJob,
    ReplayOther,
    ReplayPassage,
    ReplayPreemption,
    ReplayStart,
    ReplayWait,
)
from tgpu.wire.v1 import BlockerModel

_SHOWN_BLOCKERS: Final = 20
_MOST_RANKED: Final = 100  # jobs whose place in the line is told: each costs a look at all classes
_SHOWN_SETTINGS: Final = ("policy", "backfill", "placement", "enable_preemption")


class NoSuchMoment(ValueError):
    """The journal does not reach there, or has no such job."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The settings of a moment, and what is to be said about them."""

    settings: Settings
    scheduling: SchedulingConfig
    is_recorded: bool
    version: str
    notes: tuple[str, ...]


def predictor_for(journal: Journal) -> Predictor:
    """The one that the journal's service used; learning starts before it is known what it was."""
    name = (journal.header.settings or {}).get("prediction.predictor", "history")
    try:
        return load_predictor(str(name))()
    except Exception:  # another package's code may fail in any way, or not be there
        return load_predictor("history")()


def in_force(rebuilt: Rebuilt) -> InForce:
    """Raises CannotServe where the policy of then is not installed here."""
    values: Values = rebuilt.values() or {}
    settings, unknown = settings_of(as_of_today(values))
    event = rebuilt.settings
    notes = []
    if not values:
        notes.append("no settings are recorded, so the defaults were used")
    elif event is None:
        notes.append("the settings of that time are not recorded, so those of the export were used")
    if unknown:
        notes.append(f"settings that this version does not know: {', '.join(unknown)}")
    if (former := former_policy(values)) is not None:
        notes.append(former_note(former))
    version = "" if event is None else event.version
    if version and version != __version__:
        notes.append(f"decided by version {version}, replayed by {__version__}")
    scheduling = scheduling_config(settings, rebuilt.foresight)
    notes += _doubts(settings, scheduling)
    scheduling.set_up(rebuilt.state)
    return InForce(settings, scheduling, event is not None, version, tuple(notes))


def _doubts(settings: Settings, scheduling: SchedulingConfig) -> Iterator[str]:
    """What decided then and is not on record."""
    if scheduling.rules.backfill is BackfillMode.CONSERVATIVE:
        yield (
            "what earlier cycles had promised (backfill conservative) is not on record: they were "
            "made again too, at the instants of the events, from where the journal begins"
        )
    if settings.quota.provider != "local":
        yield f"what the quota provider {settings.quota.provider} rejected is not recorded"
    if isinstance(scheduling.policy, ChoicePolicy):
        yield (
            f"policy {scheduling.policy.name} is from another package: it may decide "
            "differently now"
        )
    if settings.prediction.predictor not in ("history", "limit", "none"):
        yield f"predictor {settings.prediction.predictor} may predict something else now"


def replay(
    journal: Journal,
    target: ReplayTarget,
    *,
    job_id: JobId | None = None,
    most: int = 20,
    tell: Tell | None = None,
) -> ReplayAnswer:
    """Raises NoSuchMoment, BadInput or CannotServe."""
    walk = JournalWalk(journal, predictor_for(journal), tell, Promising())
    moment = find(walk, target)
    if moment is None:
        raise NoSuchMoment(_missing(walk, target))
    return _Told(journal, moment, most).answer(job_id)


def _missing(walk: JournalWalk, target: ReplayTarget) -> str:
    last = walk.rebuilt.seq or walk.journal.header.last_seq
    if target.start_of is not None:
        return f"job {target.start_of} never started in this journal, which ends with event {last}"
    if target.seq is not None:
        first = walk.journal.header.after
        return f"event {target.seq} is not in this journal: it has {first + 1} to {last}"
    if target.at is not None and walk.began_at is not None:
        until = max(walk.rebuilt.at, walk.journal.header.exported_at)
        is_early = target.at < walk.began_at
        span = (
            f"begins {utc_millis_text(walk.began_at)}"
            if is_early
            else f"ends {utc_millis_text(until)}"
        )
        return f"{utc_millis_text(target.at)} is not in this journal: it {span}"
    return "the journal has no events"


def passages(
    journal: Journal,
    job_id: JobId,
    *,
    until: int | None = None,
    tell: Tell | None = None,
) -> list[ReplayPassage]:
    """The recorded cycles in which others started while this job waited, oldest first."""
    walk = JournalWalk(journal, predictor_for(journal), tell, Promising())
    found: list[ReplayPassage] = []
    is_known = False
    for step in walk.steps():
        if until is not None and step.at > until:
            break
        entry = walk.rebuilt.state.entry(job_id)
        if entry is None:
            if is_known:
                break  # it is over
            continue
        is_known = True
        starts = [event.job_id for event in step.moves(Move.START)] if step.is_cycle else []
        if not starts or job_id in starts or entry.progress.state is not JobState.PENDING:
            continue
        walk.rebuilt.pass_time(step.at)
        cycle = _Cycle(walk.rebuilt, in_force(walk.rebuilt), step.at, walk.promises)
        told = why(walk.rebuilt.state, entry, step.at, cycle.decide)
        passed = cycle.behind(entry, starts)
        found.append(
            ReplayPassage(
                seq=step.first_seq,
                at=utc_millis_text(step.at),
                started=list(starts),
                passed=passed,
                reason=reason_model(told.reason, job_id),
            )
        )
    if not is_known:
        raise NoSuchMoment(f"there is no job {job_id} in this journal")
    return found


class Promising:
    """Makes the cycles again whose promises count later: under `conservative` alone."""

    def __init__(self) -> None:
        self._settings: object = self  # of which nobody else can be
        self._scheduling: SchedulingConfig | None = None

    def __call__(self, rebuilt: Rebuilt, at: int, promises: Promises) -> Promises:
        if self._settings is not rebuilt.settings:
            self._settings = rebuilt.settings
            force = in_force(rebuilt)
            is_kept = force.scheduling.rules.backfill is BackfillMode.CONSERVATIVE
            self._scheduling = force.scheduling if is_kept else None
        if self._scheduling is None:
            return ()
        rebuilt.pass_time(at)
        return self._scheduling.decide(rebuilt.state, at, promises).reservations


class _Cycle:
    """One cycle on the state of then."""

    def __init__(self, rebuilt: Rebuilt, force: InForce, at: int, promises: Promises) -> None:
        self.promises = promises
        self.state: State = rebuilt.state
        self.force = force
        self.at = at

    def decide(self, observer: CycleObserver | None) -> Plan:
        scheduling = self.force.scheduling
        return scheduling.decide(self.state, self.at, self.promises, observer=observer)

    def ahead(self, entry: Entry) -> Ahead | None:
        policy = self.force.scheduling.policy
        if isinstance(policy, ChoicePolicy):
            return None
        return ahead_of(self.state, entry, self.at, policy, self.force.scheduling.policies)

    def behind(self, entry: Entry, starts: Collection[JobId]) -> list[str]:
        """Those of the starts that stood behind a job in the line."""
        mine = self.ahead(entry)
        found = []
        for job_id in list(starts)[:_MOST_RANKED]:
            other = self.state.entry(job_id)
            theirs = None if other is None else self.ahead(other)
            if mine is not None and theirs is not None and theirs.jobs > mine.jobs:
                found.append(str(job_id))
        return found


class _Told:
    def __init__(self, journal: Journal, moment: Moment, most: int) -> None:
        self._journal = journal
        self._moment = moment
        self._most = most
        self._rebuilt = moment.rebuilt
        self._state = moment.rebuilt.state
        force = in_force(moment.rebuilt)
        self._cycle = _Cycle(moment.rebuilt, force, moment.at, moment.promises)

    def answer(self, job_id: JobId | None) -> ReplayAnswer:
        state, moment, force = self._state, self._moment, self._cycle.force
        watched = watch_cycle(state, self._cycle.decide, self._most)
        plan, step = watched.plan, moment.cycle
        unlike = [] if step is None else _unlike(step, plan, state)
        values = {
            f"scheduler.{name}": value
            for name, value in force.settings.scheduler.model_dump(mode="json").items()
            if name in _SHOWN_SETTINGS
        }
        return ReplayAnswer(
            journal=self._journal.name,
            version=force.version,
            seq=moment.seq,
            at=utc_millis_text(moment.at),
            recorded=step is not None,
            cycle_seq=None if step is None else (step.first_seq, step.last_seq),
            agrees=None if step is None else not unlike,
            settings=values,
            settings_recorded=force.is_recorded,
            running=len(state.placed()),
            waiting=state.pending_count(),
            digest=digest(state),
            starts=self._starts(plan),
            preemptions=self._preemptions(plan),
            others=list(_others(plan)),
            waits=[
                ReplayWait(
                    job=_job(self._job(one.job_id)),
                    jobs=one.jobs,
                    reason=reason_model(one.reason, one.job_id),
                )
                for one in watched.waits
            ],
            untold=watched.untold,
            differences=unlike,
            job=None if job_id is None else self._of_job(job_id, plan),
            notes=list(force.notes),
        )

    def _starts(self, plan: Plan) -> list[ReplayStart]:
        found = []
        for number, start in enumerate(plan.starts):
            entry = self._entry(start.job_id)
            ahead = self._cycle.ahead(entry) if number < _MOST_RANKED else None
            waited = self._moment.at - entry.job.submitted_at
            found.append(
                ReplayStart(
                    job=_job(entry.job),
                    on=place_text(start.placement),
                    waited_s=waited / SECOND,
                    ahead=None if ahead is None else ahead.jobs,
                )
            )
        return found

    def _preemptions(self, plan: Plan) -> list[ReplayPreemption]:
        return [
            ReplayPreemption(job=_job(self._job(one.victim)), to=one.to, cause=one.cause)
            for one in plan.preemptions
        ]

    def _of_job(self, job_id: JobId, plan: Plan) -> ReplayOfJob:
        entry = self._state.entry(job_id)
        if entry is None:
            raise NoSuchMoment(
                f"job {job_id} was over then, had not been submitted, or is not in this journal"
            )
        waits = entry.progress.state is JobState.PENDING
        starts_here = any(start.job_id == job_id for start in plan.starts)
        told = why(self._state, entry, self._moment.at, self._cycle.decide) if waits else None
        ahead = self._cycle.ahead(entry) if waits else None
        starts = [start.job_id for start in plan.starts]
        return ReplayOfJob(
            job=_job(entry.job),
            state=entry.progress.state,
            starts_here=starts_here,
            reason=(None if told is None or starts_here else reason_model(told.reason, job_id)),
            blockers=[
                BlockerModel(
                    job_id=one.job_id,
                    tenant_id=one.tenant_id,
                    user=one.user,
                    gpu_count=one.gpu_millis / GPU,
                    node=one.node_id,
                    gpus=list(one.gpus),
                    gpu_names=[gpu_name(*gpu) for gpu in one.held],
                    ends_by=None if one.ends_by is None else utc_millis_text(one.ends_by),
                )
                for one in (() if told is None or starts_here else told.blockers[:_SHOWN_BLOCKERS])
            ],
            ahead=None if ahead is None else ahead.jobs,
            ahead_first=[] if ahead is None else [str(one) for one in ahead.first],
            passed_by=[] if not waits or starts_here else self._cycle.behind(entry, starts),
            starts_by=None
            if told is None or told.starts_by is None
            else utc_millis_text(told.starts_by),
        )

    def _job(self, job_id: JobId) -> Job:
        return self._entry(job_id).job

    def _entry(self, job_id: JobId) -> Entry:
        entry = self._state.entry(job_id)
        assert entry is not None  # a plan names only jobs of the state it was made on
        return entry


def _unlike(step: Step, plan: Plan, state: State) -> list[ReplayDifference]:
    return [
        ReplayDifference(what=one.what, id=one.job_id, recorded=one.recorded, decided=one.decided)
        for one in differences(recorded(step, state), decided(plan, state))
    ]


def _others(plan: Plan) -> Iterator[ReplayOther]:
    for claim in plan.nominations:
        yield ReplayOther(what="place kept", id=claim.job_id, text=place_text(claim.placement))
    for reservation in plan.reservations:
        where = place_text(reservation.placement)
        yield ReplayOther(what="reservation", id=reservation.job_id, text=where)
    for job_id in plan.expired:
        yield ReplayOther(what="lease ended", id=job_id, text="its time was up")
    for job_id, cause in plan.unsatisfiable:
        yield ReplayOther(what="given up", id=job_id, text=cause)
    for booking_id, cause in plan.released:
        yield ReplayOther(what="reservation over", id=booking_id, text=cause)


def _job(job: Job) -> ReplayJob:
    return ReplayJob(
        job_id=job.job_id,
        tenant_id=job.tenant_id,
        user=job.options.user,
        queue=job.queue,
        priority=job.priority,
        gpu_count=job.request.gpu_millis / GPU,
        submitted_at=utc_millis_text(job.submitted_at),
    )


__all__ = ["CannotServe", "InForce", "NoSuchMoment", "in_force", "passages", "replay"]
