"""Why a job waits, by the cycle itself: it is run, and watched as it passes the job by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tgpu.core.cycle import CycleObserver
from tgpu.core.explain import explain_class, named, own_reason, standing_holds
from tgpu.core.ids import JobId
from tgpu.core.job import JobClass
from tgpu.core.ledger import Trial
from tgpu.core.plan import Plan
from tgpu.core.reasons import Reason, ReasonCode, reason
from tgpu.core.stages.reserved_capacity import FAR, ReservedCapacity
from tgpu.core.state import Entry, State
from tgpu.core.why.blockers import Blocker, by_reason, in_the_way

# One cycle on the state as it is, with the policy and the rules that hold.
Decide = Callable[[CycleObserver | None], Plan]


class Kept(NamedTuple):
    """From then on a place that the job could have is kept for somebody."""

    at: int
    owner: str


@dataclass(frozen=True, slots=True)
class Why:
    reason: Reason
    plan: Plan  # of the cycle that passed it by
    blockers: tuple[Blocker, ...] = ()
    starts_by: int | None = None  # at the latest, where somebody promised that
    kept: tuple[Kept, ...] = ()


def why(state: State, entry: Entry, now: int, decide: Decide, policy: str = "") -> Why:
    """Of a pending job. `policy` names one of another package, which serves whom it likes and is
    not asked: `decide` then tells what would start if it chose everybody."""
    own = own_reason(state, entry)
    onlooker = _Onlooker(entry.queue.job_class, now)
    plan = decide(None if own is not None else onlooker)
    if own is None and onlooker.reason is None and plan.stopped_by is not None:
        _look_behind(state, entry, plan, onlooker, now)
    found = own or _decided(state, entry, plan, onlooker, policy)
    blockers = onlooker.blockers or by_reason(state, entry, found)
    return Why(found, plan, tuple(blockers), _starts_by(entry, plan, found), onlooker.kept)


class _Onlooker:
    """Waits for one class to be passed by, and remembers what there was to see."""

    def __init__(self, job_class: JobClass, now: int) -> None:
        self._class = job_class
        self._now = now
        self.reason: Reason | None = None
        self.blockers: list[Blocker] = []
        self.kept: tuple[Kept, ...] = ()

    def cannot_start(
        self, job_class: JobClass, job_id: JobId, trial: Trial, holds: ReservedCapacity
    ) -> None:
        if self.reason is not None or job_class != self._class:
            return
        self.reason = explain_class(trial.books, job_class, holds)
        self.blockers = in_the_way(trial, holds, job_class, self._now, self.reason)
        self.kept = tuple(Kept(hold.starts_at, hold.owner) for hold in holds.owners())


def _look_behind(state: State, entry: Entry, plan: Plan, onlooker: _Onlooker, now: int) -> None:
    """The cycle ended before it came to this job: whether it would start if nobody were before it,
    after all that starts."""
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
        onlooker.cannot_start(entry.queue.job_class, entry.job.job_id, trial, holds)


def _decided(state: State, entry: Entry, plan: Plan, onlooker: _Onlooker, policy: str) -> Reason:
    job_id = entry.job.job_id
    if any(start.job_id == job_id for start in plan.starts):
        if policy:
            return reason(ReasonCode.NOT_CHOSEN, policy=policy)
        return reason(ReasonCode.NEXT_CYCLE)
    leaving = sorted(gone.victim for gone in plan.preemptions if gone.to == job_id)
    if leaving and any(claim.job_id == job_id for claim in plan.nominations):
        return reason(ReasonCode.PROMISED, jobs=", ".join(leaving))
    if onlooker.reason is not None and onlooker.reason.code is not ReasonCode.NEXT_CYCLE:
        return named(state, plan, onlooker.reason)
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
