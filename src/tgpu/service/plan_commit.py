"""From a plan to what is recorded because of it. Pure: the writer commits it, others act on it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tgpu.core import lifecycle
from tgpu.core.events import BookingRemoved, BookingSet, Event, JobMoved
from tgpu.core.gave_way import whose, without_names
from tgpu.core.ids import JobId
from tgpu.core.lifecycle import JobState, Move
from tgpu.core.plan import Plan, Preemption, PreemptionCause, Start
from tgpu.core.state import Entry, State
from tgpu.service import bookings
from tgpu.service.outcome import preempted
from tgpu.service.receipts import Receipt


@dataclass(slots=True)
class PlanCommit:
    """What one commit has to write."""

    events: list[Event] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    documents: dict[tuple[str, str], bytes | None] = field(default_factory=dict)


def events_of(state: State, plan: Plan, now: int) -> list[Event]:
    """The events alone."""
    return prepare_commit(state, plan, now).events


def prepare_commit(state: State, plan: Plan, now: int) -> PlanCommit:
    """All that a plan changes, the events in an order in which each is legal."""
    done = PlanCommit()
    done.events += _ends(state, plan, now)
    for booking_id, cause in plan.released:
        done.events.append(BookingRemoved(now, booking_id, cause))
        done.documents[bookings.KIND, booking_id] = None
    for preemption in plan.preemptions:  # before the starts: a lease is gone at once
        _preempt(state, preemption, now, done)
    for claim in plan.claims:
        entry = _entry(state, claim.job_id)
        if entry.progress.claim != claim.placement:
            claimed = lifecycle.claim(claim.job_id, entry.progress, claim.placement)
            done.events.append(JobMoved(now, claim.job_id, Move.CLAIM, claimed))
    for start in plan.starts:
        done.events += _start(state, start, now)
    _use_bookings(state, plan, now, done)
    return done


def why(state: State, preemption: Preemption) -> str:
    """With all names, for the receipt: those see them who see both tenants."""
    to = preemption.to
    victim, other = state.entry(preemption.victim), state.entry(to)
    match preemption.cause:
        case PreemptionCause.PRIORITY:
            if victim is None or other is None:
                return f"gives way to job {to}"
            priorities = f"priority {other.job.priority} over {victim.job.priority}"
            return f"gives way to job {to} ({priorities})"
        case PreemptionCause.RECLAIM:
            whose = "its tenant" if other is None else f"tenant {other.job.tenant_id}"
            return f"gives way: quota of {whose} reclaimed by job {to}"
        case PreemptionCause.BOOKING:
            return f"gives way: its GPUs are booked: {to}"
        case PreemptionCause.POLICY:
            return f"gives way to job {to}, as the scheduling policy chose"


def _ends(state: State, plan: Plan, now: int) -> Iterator[JobMoved]:
    for job_id in plan.expired:
        entry = _entry(state, job_id)
        ended = lifecycle.end(
            job_id, entry.progress, JobState.COMPLETED, now, exit_code=0, cause="its time was up"
        )
        yield JobMoved(now, job_id, Move.COMPLETE, ended)
    for job_id, cause in plan.doomed:
        entry = _entry(state, job_id)
        ended = lifecycle.end(job_id, entry.progress, JobState.CANCELLED, now, cause=cause)
        yield JobMoved(now, job_id, Move.CANCEL, ended)


def _preempt(state: State, preemption: Preemption, now: int, done: PlanCommit) -> None:
    """A process is asked to end and keeps its GPUs until it has; a lease has none to wait for."""
    entry = _entry(state, preemption.victim)
    job = entry.job
    if entry.progress.stopping:
        return
    to_tenant_id, reason = whose(state, preemption.to), why(state, preemption)
    # A cause travels further than a receipt: into events, notices, logs and lists.
    cause = reason if to_tenant_id == job.tenant_id else without_names(reason)
    asked = lifecycle.give_way(job.job_id, entry.progress, preemption.to, cause)
    receipt = Receipt(
        job_id=job.job_id,
        attempt=asked.attempt,
        tenant_id=job.tenant_id,
        user=job.options.user,
        gpu_millis=job.request.gpu_millis,
        to=preemption.to,
        to_tenant_id=to_tenant_id,
        cause=preemption.cause,
        reason=reason,
        asked_at=now,
        lost_gpu_millis_ms=preemption.lost_gpu_millis_ms,
    )
    if job.options.lease:
        moves = preempted(job, asked, now, now)
        done.events += moves
        receipt = receipt.gone(now, moves[0].progress.lost_gpu_millis_ms - _lost(entry))
    else:
        done.events.append(JobMoved(now, job.job_id, Move.STOP, asked))
    done.receipts.append(receipt)


def _lost(entry: Entry) -> int:
    return entry.progress.lost_gpu_millis_ms


def _start(state: State, start: Start, now: int) -> Iterator[JobMoved]:
    entry = _entry(state, start.job_id)
    placed = lifecycle.place(start.job_id, entry.progress, start.placement, now)
    yield JobMoved(now, start.job_id, Move.START, placed)
    if entry.job.options.lease:
        running = lifecycle.run(start.job_id, placed, now, pid=None)
        yield JobMoved(now, start.job_id, Move.RUN, running)


def _use_bookings(state: State, plan: Plan, now: int, done: PlanCommit) -> None:
    """A booking that one of its jobs started on is not given back as unused."""
    names = (_entry(state, start.job_id).job.options.booking for start in plan.starts)
    for name in dict.fromkeys(name for name in names if name is not None):
        booking = state.ledger.bookings.get(name)
        if booking is not None and not booking.used:
            used = replace(booking, used=True)
            done.events.append(BookingSet(now, used))
            done.documents |= bookings.document(used)


def _entry(state: State, job_id: JobId) -> Entry:
    entry = state.entry(job_id)
    assert entry is not None  # a plan names only jobs of the state it was made on
    return entry
