"""Preempts jobs that are still on reserved GPUs when the reservation starts."""

from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.ids import JobId
from tgpu.core.model.plan import Preemption, PreemptionCause
from tgpu.core.preemption.preempt import lost_by
from tgpu.core.stages.draft import Draft
from tgpu.core.state.cluster_state import Entry


def preempt_for_reservations(draft: Draft) -> None:
    if draft.rules.preemption is None:
        return
    for booking_id in sorted(draft.ledger.bookings):
        booking = draft.ledger.bookings[booking_id]
        if booking.starts_at <= draft.now < booking.ends_at:
            _clear(draft, booking)


def _clear(draft: Draft, booking: AdvanceReservation) -> None:
    use = draft.ledger.nodes.get(booking.node_id)
    if use is None:
        return
    booked = frozenset(booking.gpus)
    for job_id in sorted(use.holdings):
        entry = draft.state.entry(job_id)
        if entry is None or not _is_in_the_way(entry, booking, booked):
            continue
        if not draft.ledger.tenant(entry.job.tenant_id).tenant.allow_preemption:
            continue
        to, lost = JobId(booking.booking_id), lost_by(entry, draft.now)
        draft.preemptions.append(Preemption(job_id, to, PreemptionCause.BOOKING, lost))


def _is_in_the_way(entry: Entry, booking: AdvanceReservation, booked: frozenset[int]) -> bool:
    progress, placement = entry.progress, entry.progress.placement
    if placement is None or progress.stopping:
        return False
    if entry.job.options.booking == booking.booking_id:
        return False
    if not entry.job.options.preemptible:
        return False
    is_alone = entry.job.request.where.exclusive  # nobody may join it
    return any(
        part.node_id == booking.node_id
        and (is_alone or any(share.gpu_index in booked for share in part.shares))
        for part in placement.parts()
    )
