"""Capacity held by advance reservations, backfill reservations and nominations, as seen by other
jobs.

A hold takes part of a node from one instant to another. A job may use what is held only if it is
over, by its time limit, before the hold begins. Ends come from time limits, which are enforced, so
a hold is never broken by a guess that was wrong.
"""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from tgpu.core.admission.nominated_limits import NominatedLimits
from tgpu.core.capacity.ledger import Holding, Ledger, NodeUse
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.node import Part, Placement, Share
from tgpu.core.model.units import GPU

View = Callable[[NodeUse], NodeUse]

# Later than everything: when jobs end of which nobody knows when they end.
FAR: Final = 1 << 62


class ReservedPart(NamedTuple):
    """Part of one node, from `starts_at` until `ends_at` (None: nobody knows until when)."""

    starts_at: int
    ends_at: int | None
    part: Part
    cpu_millis: int = 0
    mem_mib: int = 0
    booking: str | None = None  # whose jobs may use it
    job_id: JobId | None = None  # for whom it is

    @property
    def owner(self) -> str:
        """The booking, or the job, that it is for."""
        return self.booking or self.job_id or ""


class ReservedCapacity:
    """All holds of one cycle, by node."""

    def __init__(self, ledger: Ledger, now: int) -> None:
        self.now = now
        self._ledger = ledger
        self._by_node: dict[NodeId, list[ReservedPart]] = {}
        self.limits = NominatedLimits(ledger)
        self._jobs: dict[JobId, None] = {}  # those that have a place, in the order they got it
        if ledger.bookings:
            for booking_id in sorted(ledger.bookings):
                self._add_booking(ledger.bookings[booking_id])

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def add(
        self, job: Job, placement: Placement, starts_at: int, *, is_endless: bool = False
    ) -> None:
        """Keep a place for a job, for as long as it may run; `is_endless` where nobody knows when
        it begins to."""
        limit = None if is_endless else job.options.time_limit_ms
        _, cpu_millis, mem_mib = job.request.of_a_worker()
        self._jobs.pop(job.job_id, None)
        self._jobs[job.job_id] = None
        ends_at = None if limit is None else starts_at + limit
        for part in placement.parts():
            use = self._ledger.nodes.get(part.node_id)
            if use is None:
                continue  # the node has gone since it was promised
            if job.request.where.exclusive:
                gpus = use.node.gpus
                part = Part(part.node_id, tuple(Share(gpu.index, GPU) for gpu in gpus))
            hold = ReservedPart(starts_at, ends_at, part, cpu_millis, mem_mib, job_id=job.job_id)
            self._by_node.setdefault(part.node_id, []).append(hold)

    def drop(self, job_id: JobId, placement: Placement) -> None:
        """No longer keep this place, or anything of a limit, for the job."""
        self.limits.drop(job_id)
        for node_id in {part.node_id for part in placement.parts()}:
            kept = [hold for hold in self.of(node_id) if hold.job_id != job_id]
            if kept:
                self._by_node[node_id] = kept
            else:
                self._by_node.pop(node_id, None)  # without any, nodes need not be viewed

    def of(self, node_id: NodeId) -> list[ReservedPart]:
        return self._by_node.get(node_id, [])

    def owners(self) -> list[ReservedPart]:
        """One hold of each that something is kept for: bookings, then jobs in the order in which
        they were given a place."""
        found: dict[str, ReservedPart] = {}
        for holds in self._by_node.values():
            for hold in holds:
                found.setdefault(hold.owner, hold)
        bookings = [hold for hold in found.values() if hold.booking is not None]
        bookings.sort(key=lambda hold: hold.owner)
        return bookings + [found[job_id] for job_id in self._jobs if job_id in found]

    def only(self, owners: Collection[str]) -> "ReservedCapacity":
        """What is kept for these alone."""
        fewer = ReservedCapacity(self._ledger, self.now)
        fewer._jobs = {job_id: None for job_id in self._jobs if job_id in owners}
        fewer._by_node = {
            node_id: [hold for hold in holds if hold.owner in owners]
            for node_id, holds in self._by_node.items()
        }
        return fewer

    def view(self, job_class: JobClass) -> View | None:
        """Nodes as a job of this class that starts now must see them; None: as they are."""
        if job_class.booking is None and not self._by_node:
            return None
        return lambda use: self.seen(use, job_class, self.now)

    def seen(self, use: NodeUse, job_class: JobClass, start: int) -> NodeUse:
        """A node at its fullest while a job of this class that starts then would run."""
        if job_class.booking is not None:
            return self._inside_booking(use, job_class.booking, start)
        limit = job_class.time_limit_ms
        end = None if limit is None else start + limit
        holds = [
            hold
            for hold in self.of(use.node.node_id)
            if (end is None or hold.starts_at < end)
            and (hold.ends_at is None or hold.ends_at > start)
        ]
        if not holds and start <= self.now:
            return use
        seen = self._busiest(use, holds, start)
        if holds and job_class.request.where.exclusive:
            # It would close the node to those that something is kept for there.
            seen.gpu_millis = {gpu.index: GPU for gpu in use.node.gpus}
        return seen

    def _busiest(self, use: NodeUse, holds: list[ReservedPart], start: int) -> NodeUse:
        instants = sorted({start, *(max(start, hold.starts_at) for hold in holds)})
        at_first, *later = [self._at(use, holds, instant) for instant in instants]
        for other in later:
            for index, millis in other.gpu_millis.items():
                at_first.gpu_millis[index] = max(millis, at_first.gpu_millis.get(index, 0))
            at_first.cpu_millis = max(at_first.cpu_millis, other.cpu_millis)
            at_first.mem_mib = max(at_first.mem_mib, other.mem_mib)
            at_first.holdings |= other.holdings
        return at_first

    def _at(self, use: NodeUse, holds: list[ReservedPart], instant: int) -> NodeUse:
        """The node at one instant: who has not ended by then, and what is held then."""
        seen = use.copy() if instant <= self.now else self._after_ends(use, instant)
        for hold in holds:
            if hold.starts_at <= instant and (hold.ends_at is None or hold.ends_at > instant):
                for share in hold.part.shares:
                    taken = seen.gpu_millis.get(share.gpu_index, 0) + share.millis
                    # Preempted jobs are still there when their place is held for another.
                    seen.gpu_millis[share.gpu_index] = min(GPU, taken)
                seen.cpu_millis += hold.cpu_millis
                seen.mem_mib += hold.mem_mib
        return seen

    def _after_ends(self, use: NodeUse, instant: int) -> NodeUse:
        seen = NodeUse(use.node)
        for job_id in sorted(use.holdings):
            holding = use.holdings[job_id]
            if ends_after(holding, instant, self.now):
                seen.holdings[job_id] = holding
                for part in holding.placement.parts():
                    if part.node_id == use.node.node_id:
                        seen.add(holding.job, part.shares, +1)
        return seen

    def _add_booking(self, booking: AdvanceReservation) -> None:
        part = Part(booking.node_id, tuple(Share(index, GPU) for index in booking.gpus))
        hold = ReservedPart(booking.starts_at, booking.ends_at, part, booking=booking.booking_id)
        self._by_node.setdefault(booking.node_id, []).append(hold)

    def _inside_booking(self, use: NodeUse, booking_id: str, start: int) -> NodeUse:
        """Only the booked GPUs, and only while they are booked."""
        booking = self._ledger.bookings.get(booking_id)
        seen = use.copy()
        is_open = (
            booking is not None
            and booking.node_id == use.node.node_id
            and booking.starts_at <= start < booking.ends_at
        )
        booked = booking.gpus if booking is not None and is_open else ()
        for gpu in use.node.gpus:
            if gpu.index not in booked:
                seen.gpu_millis[gpu.index] = GPU
        return seen


def ends_after(holding: Holding, instant: int, now: int) -> bool:
    """Whether it may still be there then. Who is over its time is about to be ended."""
    until = FAR if holding.until is None else max(holding.until, now + 1)
    return until > instant
