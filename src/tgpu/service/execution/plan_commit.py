"""What one commit writes because of a plan: its events, receipts and documents. Pure."""

from dataclasses import dataclass, field

from tgpu.core.model.events import BookingRemoved, BookingSet, Event, JobMoved
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import Move
from tgpu.core.model.plan import Plan, Preemption
from tgpu.core.plan_events import plan_events
from tgpu.core.preemption.cause import reason_of, whose
from tgpu.core.state.cluster_state import State
from tgpu.service.accounting.receipts import Receipt
from tgpu.service.commands import reservations as bookings


@dataclass(slots=True)
class PlanCommit:
    events: list[Event] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    documents: dict[tuple[str, str], bytes | None] = field(default_factory=dict)


def prepare_commit(state: State, plan: Plan, now: int) -> PlanCommit:
    events = plan_events(state, plan, now)
    preempted: dict[JobId, JobMoved] = {}
    documents: dict[tuple[str, str], bytes | None] = {}
    for event in events:
        if isinstance(event, JobMoved):
            if event.move in (Move.STOP, Move.PREEMPT):
                preempted[event.job_id] = event
        elif isinstance(event, BookingSet):
            documents |= bookings.document(event.booking)
        elif isinstance(event, BookingRemoved):
            documents[bookings.KIND, event.booking_id] = None
    receipts = [
        _receipt(state, preemption, preempted.pop(preemption.victim))
        for preemption in plan.preemptions
        if preemption.victim in preempted
    ]
    return PlanCommit(events, receipts, documents)


def _receipt(state: State, preemption: Preemption, event: JobMoved) -> Receipt:
    """A lease is gone at once; of a process only what it would lose is known."""
    entry = state.entry(preemption.victim)
    assert entry is not None  # the event moves it
    job, after = entry.job, event.progress
    receipt = Receipt(
        job_id=job.job_id,
        attempt=after.attempt,
        tenant_id=job.tenant_id,
        user=job.options.user,
        gpu_millis=job.request.gpu_millis,
        to=preemption.to,
        to_tenant_id=whose(state, preemption.to),
        cause=preemption.cause,
        reason=reason_of(state, preemption),
        asked_at=event.at,
        lost_gpu_millis_ms=preemption.lost_gpu_millis_ms,
    )
    if event.move is Move.STOP:
        return receipt
    return receipt.gone(event.at, after.lost_gpu_millis_ms - entry.progress.lost_gpu_millis_ms)
