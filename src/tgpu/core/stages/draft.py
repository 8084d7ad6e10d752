"""The draft of a cycle: a trial on the ledger, the reserved capacity, and the decisions so far.

Every stage works on the one draft; none knows another.
"""

from collections.abc import Collection, Iterable
from typing import Protocol

from tgpu.core.capacity.ledger import Trial
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.node import Placement
from tgpu.core.model.plan import BackfillReservation, Nomination, Plan, Preemption, Start
from tgpu.core.model.rules import Rules
from tgpu.core.placement.place import place
from tgpu.core.preemption.preempt import Eviction
from tgpu.core.reservations.advance_reservations import due
from tgpu.core.reservations.reserved_capacity import ReservedCapacity
from tgpu.core.state.cluster_state import Entry, State
from tgpu.core.state.waiting_queue import ClassQueue


class CycleObserver(Protocol):
    """Is shown what the cycle saw whenever it could not start the head of a class."""

    def cannot_start(
        self, job_class: JobClass, job_id: JobId, trial: Trial, holds: ReservedCapacity
    ) -> None: ...


class Draft:
    stopped_by: JobId | None = None  # under `strict`, whom nobody may pass
    _untaken: tuple[Job, Placement, int | None] | None = None
    _is_refused: bool | None = None  # whether a limit was in the way of the last; None: not asked

    def __init__(
        self,
        state: State,
        now: int,
        trial: Trial,
        rules: Rules,
        *,
        refused_classes: Collection[JobClass] = frozenset(),
        observer: CycleObserver | None = None,
    ) -> None:
        self.state = state
        self.now = now
        self.refused_classes = refused_classes
        self.rules = rules
        self.trial = trial
        self.ledger = trial.ledger
        self.holds = ReservedCapacity(trial.ledger, now)
        self.served: set[JobId] = set()  # apart from the line
        self.expired: list[JobId] = []
        self.starts: list[Start] = []
        self.preemptions: list[Preemption] = []
        self.nominations: list[Nomination] = []
        self.reservations: list[BackfillReservation] = []
        self._observer = observer
        # Shapes that found no room: in a cycle it only shrinks. With holds, what a job sees also
        # depends on how long it runs and on what it has booked.
        self._full: set[int] = set()
        self._full_around_holds: set[tuple[int, int | None, str | None]] = set()

    def place(self, queue: ClassQueue) -> Placement | None:
        """Where the next job of a class could start now; None where it cannot."""
        job_class, shape = queue.job_class, queue.shape
        self._is_refused = None
        if shape in self._full:
            return None
        if self.holds or job_class.booking is not None:
            narrow = (shape, job_class.time_limit_ms, job_class.booking)
            if narrow in self._full_around_holds:
                return None
        else:
            narrow = None
        self._is_refused = self.holds.limits.refuse(job_class) is not None
        if self._is_refused:
            return None
        placement = place(self.ledger, job_class, self.holds.view(job_class))
        if placement is None:
            # Where a tenant's quotas by type steer an open request, another may look further.
            steered = self.ledger.tenant(job_class.tenant_id).tenant.max_gpu_millis_by_type
            if job_class.request.gpu_type is not None or not steered:
                if narrow is None:
                    self._full.add(shape)
                else:
                    self._full_around_holds.add(narrow)
        return placement

    def is_refused(self, job_class: JobClass) -> bool:
        """Whether a limit, and not room, is in the way of the class that was placed last."""
        if self._is_refused is None:
            self._is_refused = self.holds.limits.refuse(job_class) is not None
        return self._is_refused

    def give_up_hold(self, job_id: JobId, placement: Placement) -> None:
        """No longer keep this for a job, which alone sees more than those before it did."""
        self.holds.drop(job_id, placement)
        self._full_around_holds.clear()

    def tell_observer(self, job_class: JobClass, job_id: JobId) -> None:
        if self._observer is not None:
            self._observer.cannot_start(job_class, job_id, self.trial, self.holds)

    def start(self, entry: Entry, placement: Placement) -> None:
        """The ledger shows it after `take_started`."""
        limit = entry.job.options.time_limit_ms
        until = None if limit is None else self.now + limit
        self._untaken = (entry.job, placement, until)
        self.starts.append(Start(entry.job.job_id, placement))

    def take_started(self) -> None:
        """Let the ledger show the last start. Nobody looks at it after the last of a cycle."""
        if self._untaken is not None:
            self.trial.take(*self._untaken)
            self._untaken = None

    def evict(self, job: Job, eviction: Eviction) -> None:
        """Keep the place that others give up for the job."""
        self.preemptions += eviction.victims
        self.nominations.append(Nomination(job.job_id, eviction.placement))
        self.keep_nomination(job, eviction.placement)
        self.count_leaving(self.entry(one.victim) for one in eviction.victims)

    def keep_nomination(self, job: Job, placement: Placement) -> None:
        """Keep a place for a job, and what it needs of the limits."""
        self.holds.add(job, placement, self.now)
        self.holds.limits.add(job, placement)

    def count_leaving(self, entries: Iterable[Entry]) -> None:
        """What jobs that are being preempted have of the limits becomes free."""
        for entry in entries:
            assert entry.progress.placement is not None  # it leaves, and has not left yet
            self.holds.limits.leave(entry.job, entry.progress.placement)

    def entry(self, job_id: JobId) -> Entry:
        entry = self.state.entry(job_id)
        assert entry is not None  # the queue and the entries are two indexes of one thing
        return entry

    def plan(self) -> Plan:
        return Plan(
            tuple(self.starts),
            tuple(self.expired),
            tuple(self.state.unsatisfiable()),
            tuple(self.preemptions),
            tuple(self.nominations),
            due(self.state, self.now),
            tuple(self.reservations),
            self.stopped_by,
        )
