"""The rules of backfill: which jobs may start before a job that cannot.

Under `easy` the first head, under `conservative` the first ones get a reservation that nobody
behind them may break; under `strict` nobody passes. What a cycle told a job is kept by the next.
"""

from collections.abc import Sequence
from typing import Final

from tgpu.core.model.ids import JobId
from tgpu.core.model.plan import BackfillReservation
from tgpu.core.model.rules import BackfillMode
from tgpu.core.placement.place import could_ever_hold
from tgpu.core.reservations.reserve import Opening, opening
from tgpu.core.reservations.reserved_capacity import FAR
from tgpu.core.stages.draft import Draft
from tgpu.core.state.cluster_state import Entry
from tgpu.core.state.waiting_queue import ClassQueue

# Under `easy`, looks for an opening where the first have none, or nodes looked at for that in all;
# `conservative` has its depth.
_MOST_OPENINGS: Final = 4
_MOST_LOOKED_AT: Final = 40_000


class Backfill:
    """The reservations of one cycle."""

    is_over = False  # nobody may pass any more
    _openings = 0

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._rules = draft.rules
        # By class: jobs of one are alike, and an older one that came back is before the other.
        self.promises: dict[ClassQueue, BackfillReservation] = {}
        # What was looked for in vain: in a cycle there is only less of it.
        self._no_opening: set[tuple[int, int | None, bool]] = set()

    def keep(self, promises: Sequence[BackfillReservation]) -> None:
        """What a cycle before told a job is held for it, whatever comes out this time."""
        if not promises or self._rules.backfill is not BackfillMode.CONSERVATIVE:
            return
        draft = self._draft
        for promise in promises:
            entry = draft.state.entry(promise.job_id)
            waits = entry is not None and not draft.state.is_placed(promise.job_id)
            if entry is None or not waits or promise.at == FAR:
                continue
            if entry.queue in self.promises:
                continue
            draft.holds.add(entry.job, promise.placement, max(draft.now, promise.at))
            self.promises[entry.queue] = promise

    def redeem(self, queue: ClassQueue) -> BackfillReservation | None:
        """What its class was promised; it is held no longer, for it is their turn."""
        promise = self.promises.pop(queue, None)
        if promise is not None:
            self._draft.give_up_hold(promise.job_id, promise.placement)
            self._no_opening.clear()
        return promise

    def reserve(
        self, queue: ClassQueue, job_id: JobId, promise: BackfillReservation | None
    ) -> None:
        """The head of a class that cannot start is in nobody's way unless the rules put it
        there."""
        draft, rules = self._draft, self._rules
        entry = draft.entry(job_id)
        waited = draft.now - entry.job.submitted_at
        is_overdue = rules.hold_after_ms is not None and waited >= rules.hold_after_ms
        if rules.backfill is BackfillMode.GREEDY and not is_overdue:
            return
        if draft.is_refused(queue.job_class):
            return  # not for want of room: nobody behind it makes it wait
        if rules.backfill is BackfillMode.STRICT:
            # What can never start would keep everybody waiting for ever.
            self.is_over = self._could_ever_hold(queue)
            draft.stopped_by = job_id if self.is_over else None
        elif len(draft.reservations) < self._most_reservations():
            found = self._opening(queue, promise, is_overdue)
            if found is not None:
                self._hold(entry, found)

    def keep_unreached(self) -> None:
        """Jobs that were not reached, behind others of their class: their word stands as well."""
        self._draft.reservations += self.promises.values()

    def _could_ever_hold(self, queue: ClassQueue) -> bool:
        ledger = self._draft.ledger
        known = ledger.ever_holds.get(queue.shape)
        if known is None:
            nodes = [ledger.node(node_id).node for node_id in ledger.node_ids()]
            known = could_ever_hold(nodes, queue.job_class)
            ledger.ever_holds[queue.shape] = known
        return known

    def _most_reservations(self) -> int:
        return self._rules.depth if self._rules.backfill is BackfillMode.CONSERVATIVE else 1

    def _opening(
        self, queue: ClassQueue, promise: BackfillReservation | None, is_overdue: bool
    ) -> Opening | None:
        """Where and when it will have room; what it was told before, if that is no later."""
        draft, found, job_class = self._draft, None, queue.job_class
        most = max(_MOST_OPENINGS, _MOST_LOOKED_AT // max(1, len(draft.ledger.nodes)))
        limit = job_class.time_limit_ms if draft.holds else None
        alike = (queue.shape, limit, is_overdue)
        if alike not in self._no_opening and self._openings < max(most, self._most_reservations()):
            self._openings += 1
            found = opening(draft.trial, draft.holds, job_class, draft.now, patient=is_overdue)
            if found is None and job_class.booking is None:
                self._no_opening.add(alike)
        if promise is not None and (found is None or promise.at < found.at):
            return Opening(promise.at, promise.placement)
        return found

    def _hold(self, entry: Entry, found: Opening) -> None:
        # Where nobody knows when it can start, nobody new may come onto the GPUs it waits for, and
        # nobody is told an instant at which it will have left them.
        is_far = found.at == FAR
        starts_at = self._draft.now if is_far else found.at
        self._draft.holds.add(entry.job, found.placement, starts_at, is_endless=is_far)
        self._draft.reservations.append(
            BackfillReservation(entry.job.job_id, found.at, found.placement)
        )
