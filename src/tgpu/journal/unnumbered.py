"""Finds the cycles in journals of versions whose events have no decision number.

A cycle wrote its decisions together, in a fixed order and with one instant: a run of such rows is
taken for a recorded cycle. Some are known by their words alone. Nothing is written like this any
more, and what stands here only ever reads.
"""

from typing import Final

from tgpu.core.model.events import BookingRemoved, BookingSet, Event, JobMoved, UsageAdded
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import Move
from tgpu.core.reservations.advance_reservations import OVER
from tgpu.core.state.cluster_state import State

_TIME_UP: Final = "its time was up"
_UNUSED: Final = "nothing ran in it within"

# The order in which a cycle wrote what it decided.
_ENDED, _RELEASED, _PREEMPTED, _CLAIMED, _STARTED, _USED, _USAGE = range(7)


class RowGroup:
    """Rows that stand together, as they come. The state is that before the first of them."""

    def __init__(self, event: Event, state: State) -> None:
        rank = _rank(event, state)
        is_run = isinstance(event, JobMoved) and event.move is Move.RUN
        self.is_cycle = rank is not None and rank < _USAGE and not is_run
        self._at = event.at
        self._rank = rank or 0
        self._started: set[JobId] = set()
        self._note(event)

    def takes(self, event: Event, state: State) -> bool:
        """Whether the next row belongs to them."""
        if not self.is_cycle or event.at != self._at:
            return False
        rank = _rank(event, state)
        if rank is None or rank < self._rank:
            return False
        if isinstance(event, JobMoved) and event.move is Move.RUN:
            if event.job_id not in self._started:
                return False
            if event.progress.pid is not None:
                self.is_cycle = False  # a process that ran already was taken in: nobody decided it
        self._rank = rank
        self._note(event)
        return True

    def _note(self, event: Event) -> None:
        if isinstance(event, JobMoved) and event.move is Move.START:
            self._started.add(event.job_id)


def _rank(event: Event, state: State) -> int | None:
    """None: no cycle wrote this."""
    match event:
        case JobMoved():
            return _rank_of_move(event, state)
        case BookingRemoved() if event.cause == OVER or event.cause.startswith(_UNUSED):
            return _RELEASED
        case BookingSet() if event.booking.used:
            known = state.ledger.bookings.get(event.booking.booking_id)
            return _USED if known is not None and not known.used else None
        case UsageAdded():
            return _USAGE
    return None


def _rank_of_move(event: JobMoved, state: State) -> int | None:
    progress = event.progress
    entry = state.entry(event.job_id)
    is_lease = entry is not None and entry.job.options.lease
    is_preempted = event.move is Move.STOP and progress.gives_way_to is not None
    ends = event.move is Move.COMPLETE and progress.cause == _TIME_UP
    is_given_up = event.move is Move.CANCEL and state.unsatisfiable_cause(event.job_id) is not None
    if ends or is_given_up:
        return _ENDED
    if is_preempted or (is_lease and event.move in (Move.PREEMPT, Move.REQUEUE)):
        return _PREEMPTED
    if event.move is Move.NOMINATE:
        return _CLAIMED
    if event.move is Move.START or (is_lease and event.move is Move.RUN):
        return _STARTED
    return None
