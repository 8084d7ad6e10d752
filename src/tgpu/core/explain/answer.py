"""Why a job waits: runs the cycle and observes why it does not start the job."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tgpu.core.capacity.ledger import Trial
from tgpu.core.cycle import CycleObserver
from tgpu.core.explain.blockers import Blocker, by_reason, in_the_way
from tgpu.core.explain.reason import explain_class, named, own_reason, standing_holds
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import JobClass
from tgpu.core.model.plan import Plan
from tgpu.core.model.reasons import Reason, ReasonCode, reason
from tgpu.core.reservations.reserved_capacity import FAR, ReservedCapacity
from tgpu.core.state.cluster_state import Entry, State

# One cycle on the state as it is, with the policy and the rules that hold.
Decide = Callable[[CycleObserver | None], Plan]


class KeptPlace(NamedTuple):
    """From then on a place that the job could have is kept for somebody."""

    at: int
    owner: str


@dataclass(frozen=True, slots=True)
class Why:
    reason: Reason
    plan: Plan  # of the cycle that passed it by
    blockers: tuple[Blocker, ...] = ()
    starts_by: int | None = None  # at the latest, where somebody promised that
    kept: tuple[KeptPlace, ...] = ()


def why(state: State, entry: Entry, now: int, decide: Decide, policy: str = "") -> Why:
    """Of a pending job. `policy` names one of another package, which serves whom it likes and is
    not asked: `decide` then tells what would start if it chose everybody."""
    onlooker = _Blocked(entry.queue.job_class, now)
    own = own_reason(state, entry)
    outcome = _watch(state, onlooker, now, decide, policy, is_asked=own is None)
    found = own or outcome.reason_of(entry)
    blockers = onlooker.blockers or by_reason(state, entry, found)
    plan = outcome.plan
    return Why(found, plan, tuple(blockers), _starts_by(entry, plan, found), onlooker.kept)


def watch_classes(
    state: State, classes: Collection[JobClass], now: int, decide: Decide, policy: str = ""
) -> "CycleOutcome":
    """One cycle that is watched as it passes these by: for as many jobs as the reason of each is
    asked for, it is the one that `why` gives."""
    return _watch(state, Onlooker(classes), now, decide, policy)


class Onlooker:
    """Waits for classes to be passed by, and remembers why."""

    def __init__(self, classes: Collection[JobClass]) -> None:
        self.classes = classes
        self.reasons: dict[JobClass, Reason] = {}

    def cannot_start(
        self, job_class: JobClass, job_id: JobId, trial: Trial, holds: ReservedCapacity
    ) -> None:
        if job_class in self.classes and job_class not in self.reasons:
            self.reasons[job_class] = explain_class(trial.ledger, job_class, holds)
            self.saw(job_class, trial, holds)

    def saw(self, job_class: JobClass, trial: Trial, holds: ReservedCapacity) -> None:
        """What else there is to see at that moment."""


class _Blocked(Onlooker):
    """The same for one of them, with who is in its way."""

    def __init__(self, job_class: JobClass, now: int) -> None:
        super().__init__((job_class,))
        self._now = now
        self.blockers: list[Blocker] = []
        self.kept: tuple[KeptPlace, ...] = ()

    def saw(self, job_class: JobClass, trial: Trial, holds: ReservedCapacity) -> None:
        self.blockers = in_the_way(trial, holds, job_class, self._now, self.reasons[job_class])
        self.kept = tuple(KeptPlace(hold.starts_at, hold.owner) for hold in holds.owners())


def _watch(
    state: State,
    onlooker: Onlooker,
    now: int,
    decide: Decide,
    policy: str,
    *,
    is_asked: bool = True,
) -> "CycleOutcome":
    plan = decide(onlooker if is_asked else None)
    missed = [one for one in onlooker.classes if one not in onlooker.reasons] if is_asked else []
    if missed and plan.stopped_by is not None:
        _look_behind(state, missed, plan, onlooker, now)
    return CycleOutcome(state, plan, onlooker.reasons, policy)


def _look_behind(
    state: State, missed: Iterable[JobClass], plan: Plan, onlooker: Onlooker, now: int
) -> None:
    """The cycle ended before it came to these: whether they would start if nobody were before
    them, after all that starts."""
    with Trial(state.ledger) as trial:
        for job_id in plan.expired:
            other = state.entry(job_id)
            if other is not None and other.progress.placement is not None:
                trial.give(other.job, other.progress.placement)
        for start in plan.starts:
            other = state.entry(start.job_id)
            if other is not None:
                limit = other.job.options.time_limit_ms
                trial.take(other.job, start.placement, None if limit is None else now + limit)
        holds = standing_holds(state, plan, now)
        for job_class in missed:
            onlooker.cannot_start(job_class, JobId(""), trial, holds)


class CycleOutcome:
    """What a cycle came to, for those who ask about one job or another."""

    def __init__(
        self, state: State, plan: Plan, reasons: Mapping[JobClass, Reason], policy: str
    ) -> None:
        self.plan = plan
        self._state = state
        self._reasons = reasons
        self._policy = policy
        self._starts = {start.job_id for start in plan.starts}
        self._nominated = {one.job_id for one in plan.nominations}
        self._leaving: dict[str, list[JobId]] = {}
        for gone in plan.preemptions:
            self._leaving.setdefault(gone.to, []).append(gone.victim)

    def reason_of(self, entry: Entry) -> Reason:
        """Of a pending job whose class was watched: its own reason comes before anything here."""
        own = own_reason(self._state, entry)
        return self._decided(entry) if own is None else own

    def _decided(self, entry: Entry) -> Reason:
        job_id, plan = entry.job.job_id, self.plan
        if job_id in self._starts:
            if self._policy:
                return reason(ReasonCode.NOT_CHOSEN, policy=self._policy)
            return reason(ReasonCode.NEXT_CYCLE)
        if job_id in self._nominated and job_id in self._leaving:
            return reason(ReasonCode.PROMISED, jobs=", ".join(sorted(self._leaving[job_id])))
        seen = self._reasons.get(entry.queue.job_class)
        if seen is not None and seen.code is not ReasonCode.NEXT_CYCLE:
            return named(self._state, plan, seen)
        if plan.stopped_by is not None:
            return reason(ReasonCode.STRICT_LINE, job=plan.stopped_by)
        return reason(ReasonCode.NEXT_CYCLE)


def _starts_by(entry: Entry, plan: Plan, found: Reason) -> int | None:
    if found.code is ReasonCode.BOOKING_AHEAD:
        return int(found.fact("at"))
    for reservation in plan.reservations:
        if reservation.job_id == entry.job.job_id and reservation.at != FAR:
            return reservation.at
    return None
