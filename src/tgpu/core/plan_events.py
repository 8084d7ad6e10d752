"""From a plan to the events that carry it out, each legal after those before it. Pure.

The one hand of the one decider: the service commits these events; a projection, a simulation and
a resimulation apply them to a state of their own. Without processes nobody waits for one to begin
or to end: that, and how much of its work a job keeps, is all that differs (`Execution`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from typing import Final

from msgspec.structs import replace

from tgpu.core.model import lifecycle
from tgpu.core.model.cause import Fault
from tgpu.core.model.events import BookingRemoved, BookingSet, Event, JobMoved
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import JobState, Move, Progress
from tgpu.core.model.plan import Plan, Preemption
from tgpu.core.model.rules import BackfillMode, Rules
from tgpu.core.preemption.cause import reason_of, whose, without_names
from tgpu.core.state.cluster_state import Entry, State

# When the work of a job that is preempted now was last saved.
SavedAt = Callable[[Entry, int], int]

# Names at hand: those of an enum are looked up each time, and every start comes here.
_START: Final = Move.START
_RUN: Final = Move.RUN
_END_MOVES: Final = {
    JobState.COMPLETED: Move.COMPLETE,
    JobState.FAILED: Move.FAIL,
    JobState.CANCELLED: Move.CANCEL,
}


@dataclass(frozen=True, slots=True)
class Execution:
    """What of a plan is done in the very instant of its decision."""

    is_confirmed: bool = False  # who starts runs at once, and nobody has to report it
    evicts_at_once: bool = False  # a preempted job is gone: no process needs time to end
    saved_at: SavedAt | None = None  # of those; None: what their own checkpoints say


# An engine starts and ends processes, and reports it. Leases have none: for them all is at once.
LIVE: Final = Execution()
VIRTUAL: Final = Execution(is_confirmed=True, evicts_at_once=True)


def plan_events(state: State, plan: Plan, now: int, execution: Execution = LIVE) -> list[Event]:
    """All that a plan changes. The state is the one that the plan was made on."""
    events: list[Event] = []
    if plan.expired or plan.unsatisfiable:
        events += _ends(state, plan, now)
    for booking_id, cause in plan.released:
        events.append(BookingRemoved(now, booking_id, cause))
    asked: set[JobId] = set()
    for preemption in plan.preemptions:  # before the starts, which may need what is free by them
        if preemption.victim not in asked:  # two bookings may ask for the GPUs of one job
            asked.add(preemption.victim)
            events += _preempt(state, preemption, now, execution)
    for claim in plan.nominations:
        progress = _entry(state, claim.job_id).progress
        if progress.claim != claim.placement:
            claimed = lifecycle.nominate(claim.job_id, progress, claim.placement)
            events.append(JobMoved(now, claim.job_id, Move.NOMINATE, claimed))
    _start(state, plan, now, execution, events)
    return events


def frees_something(plan: Plan) -> bool:
    """Whether another cycle at the same instant sees room, or jobs, that this one did not."""
    return bool(plan.preemptions or plan.released or plan.expired or plan.unsatisfiable)


def may_find_more(plan: Plan, rules: Rules) -> bool:
    """Whether another cycle at the same instant may decide something: the service makes one.

    After starts alone it does not where no GPUs are kept free and no job is preempted: room only
    shrinks in a cycle, so a job that found none finds none now.
    """
    if frees_something(plan):
        return True
    keeps_free = rules.backfill in (BackfillMode.EASY, BackfillMode.CONSERVATIVE) or (
        rules.backfill is BackfillMode.GREEDY and rules.hold_after_ms is not None
    )
    return bool(plan.starts) and (keeps_free or rules.preemption is not None)


def job_ended(
    entry: Entry, to: JobState, now: int, *, exit_code: int | None = None, cause: str | None = None
) -> JobMoved:
    """A job is over."""
    job_id = entry.job.job_id
    ended = lifecycle.end(job_id, entry.progress, to, now, exit_code=exit_code, cause=cause)
    return JobMoved(now, job_id, _END_MOVES[to], ended)


def stop_finished(entry: Entry, now: int) -> list[JobMoved]:
    """Nothing is left of a job whose end was asked for: it waits again, on hold if that was the
    wish, or is cancelled."""
    job, progress = entry.job, entry.progress
    if progress.gives_way_to is not None:
        return job_preempted(job, progress, now, now)
    if not progress.held:
        return [job_ended(entry, JobState.CANCELLED, now, cause=progress.cause)]
    cause = progress.cause or "put on hold"
    waits = lifecycle.requeue(job.job_id, progress, now, cause, counts=False, at=now)
    return [JobMoved(now, job.job_id, Move.REQUEUE, replace(waits, held=True))]


def job_preempted(
    job: Job, progress: Progress, at: int, eligible_at: int, *, ran: bool = True
) -> list[JobMoved]:
    """It was preempted: two moves of one commit, so that nobody finds it neither here nor there."""
    gpu_millis = job.request.gpu_millis if ran else 0
    gone = lifecycle.preempt(job.job_id, progress, at, gpu_millis)
    cause = progress.cause or "preempted"
    again = lifecycle.requeue(job.job_id, gone, eligible_at, cause, counts=False)
    again = replace(again, fault=Fault.PREEMPTED)
    return [
        JobMoved(at, job.job_id, Move.PREEMPT, gone),
        JobMoved(at, job.job_id, Move.REQUEUE, again),
    ]


def _ends(state: State, plan: Plan, now: int) -> Iterator[JobMoved]:
    for job_id in plan.expired:
        entry = _entry(state, job_id)
        yield job_ended(entry, JobState.COMPLETED, now, exit_code=0, cause="its time was up")
    for job_id, cause in plan.unsatisfiable:
        yield job_ended(_entry(state, job_id), JobState.CANCELLED, now, cause=cause)


def _preempt(
    state: State, preemption: Preemption, now: int, execution: Execution
) -> list[JobMoved]:
    """A process is asked to end and keeps its GPUs until it has."""
    entry = _entry(state, preemption.victim)
    job, progress = entry.job, entry.progress
    if progress.stopping:
        return []
    reason = reason_of(state, preemption)
    # A cause travels further than a receipt: into events, notices, logs and lists.
    is_own = whose(state, preemption.to) == job.tenant_id
    cause = reason if is_own else without_names(reason)
    asked = lifecycle.ask_preemption(job.job_id, progress, preemption.to, cause)
    if execution.saved_at is not None:
        asked = replace(asked, checkpoint_at=execution.saved_at(entry, now))
    if execution.evicts_at_once or job.options.lease:
        return job_preempted(job, asked, now, now)
    return [JobMoved(now, job.job_id, Move.STOP, asked)]


def _start(state: State, plan: Plan, now: int, execution: Execution, events: list[Event]) -> None:
    is_confirmed = execution.is_confirmed
    booked: dict[str, None] = {}
    for start in plan.starts:
        job_id = start.job_id
        entry = _entry(state, job_id)
        options = entry.job.options
        placed = lifecycle.place(job_id, entry.progress, start.placement, now)
        events.append(JobMoved(now, job_id, _START, placed))
        if is_confirmed or options.lease:
            running = lifecycle.run(job_id, placed, now, None)
            events.append(JobMoved(now, job_id, _RUN, running))
        if options.booking is not None:
            booked[options.booking] = None
    for booking_id in booked:  # one that a job started on is not given back as unused
        booking = state.ledger.bookings.get(booking_id)
        if booking is not None and not booking.used:
            events.append(BookingSet(now, replace_fields(booking, used=True)))


def _entry(state: State, job_id: JobId) -> Entry:
    entry = state.entry(job_id)
    assert entry is not None  # a plan names only jobs of the state it was made on
    return entry
