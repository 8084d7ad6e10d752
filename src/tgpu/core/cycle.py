"""One scheduling cycle: the whole state in, a plan out, nothing changed.

1. Leases whose time is up end, and their GPUs count as free; bookings that are over are let go.
2. Jobs whose dependencies failed are given up.
3. Jobs that others already give way to are served first: what was promised is kept.
4. The heads of all classes are taken in the policy's order; each is admitted and placed on a
   trial. A class whose head cannot start is passed over whole: its other jobs are no different.
5. For a head that cannot start, others give way where the rules allow it, or it gets a
   reservation that nobody behind it may break.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from tgpu.core.booking import Booking
from tgpu.core.bookings import due
from tgpu.core.cohort import would_borrow
from tgpu.core.errors import InvariantBroken
from tgpu.core.ids import JobId, TenantId
from tgpu.core.job import Job, JobClass
from tgpu.core.ledger import Trial
from tgpu.core.node import Placement
from tgpu.core.plan import (
    Claim,
    Plan,
    Preemption,
    PreemptionCause,
    Reservation,
    Start,
)
from tgpu.core.policy import (
    ChoicePolicy,
    OrderPolicy,
    Policy,
    Ranking,
    Rounds,
    goes_by_rounds,
    is_ranking,
)
from tgpu.core.queue import ClassQueue, QueueKey
from tgpu.core.rules import PLAIN, Passing, PreemptionRules, Rules
from tgpu.core.stages.admit import refuse
from tgpu.core.stages.hold import FAR, Holds
from tgpu.core.stages.line import Lines
from tgpu.core.stages.outrank import Outranked
from tgpu.core.stages.place import could_ever_hold, place
from tgpu.core.stages.preempt import Candidates, Eviction, Search, borrowers, lost_by
from tgpu.core.stages.reserve import Opening, opening
from tgpu.core.stages.round import give_out, has_begun, is_due
from tgpu.core.state import Entry, State
from tgpu.core.tenant import TenantQueue
from tgpu.core.units import GPU

_NONE: Final[Mapping[str, OrderPolicy]] = {}
_NO_PLAN: Final = Plan()

# Searches for somebody to give way are dear, and whoever is not among the first waits its turn; on
# a small cluster they are cheap, and everybody has one: so many jobs may be looked at in all.
_MOST_SEARCHES: Final = 32
_MOST_ASKED: Final = 4_096
# Under `easy`, looks for an opening where the first have none, or nodes looked at for that in all;
# `conservative` has its depth.
_MOST_OPENINGS: Final = 4
_MOST_LOOKED_AT: Final = 40_000


class Witness(Protocol):
    """Is shown what the cycle saw whenever it could not start the head of a class."""

    def cannot_start(
        self, job_class: JobClass, job_id: JobId, trial: Trial, holds: Holds
    ) -> None: ...


def schedule(
    state: State,
    now: int,
    policy: Policy,
    closed: Collection[JobClass] = frozenset(),
    *,
    rules: Rules = PLAIN,
    policies: Mapping[str, OrderPolicy] = _NONE,
    promises: Sequence[Reservation] = (),
    witness: Witness | None = None,
) -> Plan:
    """Decide what starts now. Apply `TimePassed(now)` first, so that back-offs have ended.

    Nothing of the `closed` classes starts: somebody else has refused them. `policies` are the
    orders that queues may name for themselves. `promises` are the reservations of the cycle
    before: under `conservative` each is kept, or bettered.
    """
    if state.is_quiet():
        return _NO_PLAN
    trial = Trial(state.ledger)
    try:
        cycle = _Cycle(state, now, closed, rules, trial)
        cycle.witness = witness
        expired = cycle.end_leases()
        cycle.clear_bookings()
        cycle.serve_claimants()
        cycle.keep_promises(promises)
        if isinstance(policy, ChoicePolicy):
            cycle.fill_by_choice(policy)
        else:
            cycle.fill_by_key(policy, policies)
    finally:
        trial.undo()
    return Plan(
        tuple(cycle.starts),
        tuple(expired),
        tuple(state.doomed()),
        tuple(cycle.preemptions),
        tuple(cycle.claims),
        due(state, now),
        tuple(cycle.reservations),
        cycle.stopped_by,
    )


class _Cycle:
    """One cycle under way: the trial, and what was decided so far."""

    # Most cycles never touch these.
    _candidates: Candidates | None = None
    _ranking: Ranking | None = None  # those who run give way by rank
    _outranked: Outranked | None = None
    _borrowers: frozenset[TenantId] = frozenset()
    _searches = 0
    _openings = 0
    _is_over = False  # nobody may pass any more
    _is_refused: bool | None = None  # whether a limit was in the way of the last; None: not asked
    _untaken: tuple[Job, Placement, int | None] | None = None
    stopped_by: JobId | None = None
    witness: Witness | None = None

    def __init__(
        self,
        state: State,
        now: int,
        closed: Collection[JobClass],
        rules: Rules,
        trial: Trial,
    ) -> None:
        self._state = state
        self._now = now
        self._closed = closed
        self._rules = rules
        self._trial = trial
        self._books = trial.books
        self._holds = Holds(trial.books, now)
        # Shapes that found no room: in a cycle it only shrinks. With holds, what a job sees also
        # depends on how long it runs and on what it has booked.
        self._full: set[int] = set()
        self._full_around_holds: set[tuple[int, int | None, str | None]] = set()
        if rules.preemption is not None:
            self._borrowers = borrowers(trial.books)
        # What was looked for in vain: in a cycle there is only less of it. A search that failed
        # fails at any lower priority too.
        self._no_victims: dict[tuple[object, ...], int] = {}
        self._no_opening: set[tuple[int, int | None, bool]] = set()
        self._served: set[JobId] = set()  # apart from the line
        self._promises: dict[ClassQueue, Reservation] = {}
        self.starts: list[Start] = []
        self.preemptions: list[Preemption] = []
        self.claims: list[Claim] = []
        self.reservations: list[Reservation] = []

    # -- before anybody is served ----------------------------------------------------------------

    def end_leases(self) -> list[JobId]:
        expired = self._state.expired_leases(self._now)
        for job_id in expired:
            entry = self._state.entry(job_id)
            if entry is not None and entry.progress.placement is not None:
                self._trial.give(entry.job, entry.progress.placement)
        return expired

    def clear_bookings(self) -> None:
        """Whoever is still on booked GPUs when the booking starts gives way."""
        if self._rules.preemption is None:
            return
        for booking_id in sorted(self._books.bookings):
            booking = self._books.bookings[booking_id]
            use = self._books.nodes.get(booking.node_id)
            if use is None or not booking.starts_at <= self._now < booking.ends_at:
                continue
            booked = frozenset(booking.gpus)
            for job_id in sorted(use.holdings):
                entry = self._state.entry(job_id)
                if entry is None or not _is_in_the_way(entry, booking, booked):
                    continue
                if not self._books.tenant(entry.job.tenant_id).tenant.allow_preemption:
                    continue
                to, lost = JobId(booking_id), lost_by(entry, self._now)
                self.preemptions.append(Preemption(job_id, to, PreemptionCause.BOOKING, lost))

    def serve_claimants(self) -> None:
        """Jobs that others give way to start first, or keep the place that is being cleared."""
        for entry in self._state.claimants():
            job_class, claim = entry.queue.job_class, entry.progress.claim
            is_closed = job_class in self._closed
            placement = None if is_closed else self._place(entry.queue)
            if placement is None and claim is not None and self._is_in_vain(entry, claim):
                continue  # it stands in line like everybody, and others may give way to it anew
            self._served.add(entry.job.job_id)
            if is_closed:
                continue
            if placement is not None:
                self._start(entry, placement)
                self._take_started()
                continue
            self._testify(job_class, entry.job.job_id)
            if claim is not None:
                self._holds.add(entry.job, claim, self._now)

    def _is_in_vain(self, entry: Entry, claim: Placement) -> bool:
        """Whether it waits for nothing: nobody gives way to it any more, and a limit, a failure or
        others on its GPUs came between."""
        if refuse(self._books, entry.queue.job_class) is None and self._is_whole(claim):
            return False
        leaving = (self._state.entry(job_id) for job_id in self._on_nodes_of(claim))
        if any(other is not None and other.progress.stopping for other in leaving):
            return False
        return not self._state.anybody_gives_way_to(entry.job.job_id)

    def _on_nodes_of(self, placement: Placement) -> Iterable[JobId]:
        for part in placement.parts():
            if part.node_id in self._books.nodes:
                yield from self._books.nodes[part.node_id].holdings

    def _is_whole(self, claim: Placement) -> bool:
        """Whether nobody else is on these GPUs, and none of them failed or was paused."""
        for part in claim.parts():
            use = self._books.nodes.get(part.node_id)
            gpus = {} if use is None else {gpu.index: gpu for gpu in use.node.gpus}
            for share in part.shares:
                gpu = gpus.get(share.gpu_index)
                if use is None or gpu is None or gpu.problem is not None or gpu.paused is not None:
                    return False
                if use.gpu_millis.get(gpu.index, 0) + share.millis > GPU:
                    return False
        return True

    def keep_promises(self, promises: Sequence[Reservation]) -> None:
        """What a cycle before told a job is held for it, whatever comes out this time."""
        if not promises or self._rules.passing is not Passing.CONSERVATIVE:
            return
        for promise in promises:
            entry = self._state.entry(promise.job_id)
            waits = entry is not None and not self._state.is_placed(promise.job_id)
            if entry is None or not waits or promise.at == FAR:
                continue
            if entry.queue in self._promises:
                continue
            self._holds.add(entry.job, promise.placement, max(self._now, promise.at))
            # By class: jobs of one are alike, and an older one that came back is before the other.
            self._promises[entry.queue] = promise

    # -- in order --------------------------------------------------------------------------------

    def fill_by_key(self, policy: OrderPolicy, policies: Mapping[str, OrderPolicy]) -> None:
        state, now = self._state, self._now
        order = policy.at(state, now)
        if goes_by_rounds(order):
            self._take_round(order)
            return
        if self._rules.preemption is not None and is_ranking(order):
            self._ranking = order
        own = {name: each.at(state, now) for name, each in policies.items()} if policies else {}
        lines = Lines(self._books, order, own, self._open_classes(), self._served)
        aside = self._serve(lines, is_lending=bool(self._books.cohorts))
        if aside:
            self._served.update(start.job_id for start in self.starts)
            self._serve(Lines(self._books, order, own, aside, self._served), is_lending=False)
        # Jobs that were not reached, behind others of their class: their word stands as well.
        self.reservations += self._promises.values()

    def _take_round(self, order: Rounds) -> None:
        """Give out all GPUs by count; where that takes some from others, that is all for now."""
        if not is_due(self._state, self._now, order.round_ms):
            return
        turns, leftover = give_out(self._state, order, self._rules.preemption, self._now)
        if leftover and turns and has_begun(self._state, self._now, order.round_ms):
            to = turns[0].job.job_id
            self.preemptions += [
                Preemption(e.job.job_id, to, PreemptionCause.POLICY, lost_by(e, self._now))
                for e in leftover
            ]
            return
        for entry in turns:
            if entry.job.job_id in self._served or entry.queue.job_class in self._closed:
                continue
            placement = self._place(entry.queue)
            if placement is None:
                self._testify(entry.queue.job_class, entry.job.job_id)
            else:
                self._start(entry, placement)
                self._take_started()

    def _serve(self, lines: Lines, *, is_lending: bool) -> list[ClassQueue]:
        """Start whom one can, in order. Only what is idle is lent: who needs more than its own
        quota is put aside until everybody else had their turn."""
        aside: list[ClassQueue] = []
        is_plain = self._rules is PLAIN
        while not self._is_over and (found := lines.next()) is not None:
            line, head = found
            if is_lending and would_borrow(self._books, head.queue.job_class):
                line.drop(head)
                aside.append(head.queue)
                continue
            promise = self._promises.pop(head.queue, None) if self._promises else None
            if promise is not None:
                self._holds.drop(promise.job_id, promise.placement)
                self._full_around_holds.clear()  # it alone sees more than those before it did
                self._no_opening.clear()
            placement = self._place(head.queue)
            if placement is None:
                line.drop(head)
                self._testify(head.queue.job_class, head.key[2])
                if not is_plain:
                    self._cannot_start(head.queue, head.key[2], promise)
                continue
            self._start(self._entry(head.key[2]), placement)
            line.advance(head)
            if aside or lines.has_more():
                self._take_started()
        return aside

    def _open_classes(self) -> Iterable[ClassQueue]:
        classes = self._state.waiting.classes()
        if not self._closed:
            return classes
        return (queue for queue in classes if queue.job_class not in self._closed)

    def fill_by_choice(self, policy: ChoicePolicy) -> None:
        for queue, pending in _by_queue(self._state, self._served):
            while pending:
                chosen = policy.choose(queue, tuple(pending.values()))
                if chosen is None:
                    break
                # Our own record of it: a plug-in may hand back a changed copy.
                job = pending.pop(chosen.job_id, None)
                if job is None:
                    raise InvariantBroken(
                        f"policy {policy.name} chose job {chosen.job_id}, which it was not shown"
                    )
                job_class = self._entry(job.job_id).queue.job_class
                if job_class in self._closed:
                    continue
                placement = self._place(self._entry(job.job_id).queue)
                if placement is not None:
                    self._start(self._entry(job.job_id), placement)
                    self._take_started()
                    continue
                self._testify(job_class, job.job_id)
                if (search := self._search(job_class, whoever=True)) is not None:
                    self._promise(job, search.find_by_choice(job, policy.victim))

    # -- one job ---------------------------------------------------------------------------------

    def _place(self, queue: ClassQueue) -> Placement | None:
        job_class, shape = queue.job_class, queue.shape
        self._is_refused = None
        if shape in self._full:
            return None
        if self._holds or job_class.booking is not None:
            narrow = (shape, job_class.time_limit_ms, job_class.booking)
            if narrow in self._full_around_holds:
                return None
        else:
            narrow = None
        self._is_refused = refuse(self._books, job_class) is not None
        if self._is_refused:
            return None
        placement = place(self._books, job_class, self._holds.view(job_class))
        if placement is None:
            # Where a tenant's quotas by type steer an open request, another may look further.
            steered = self._books.tenant(job_class.tenant_id).tenant.max_gpu_millis_by_type
            if job_class.request.gpu_type is not None or not steered:
                if narrow is None:
                    self._full.add(shape)
                else:
                    self._full_around_holds.add(narrow)
        return placement

    def _testify(self, job_class: JobClass, job_id: JobId) -> None:
        if self.witness is not None:
            self.witness.cannot_start(job_class, job_id, self._trial, self._holds)

    def _start(self, entry: Entry, placement: Placement) -> None:
        limit = entry.job.options.time_limit_ms
        until = None if limit is None else self._now + limit
        self._untaken = (entry.job, placement, until)
        self.starts.append(Start(entry.job.job_id, placement))

    def _take_started(self) -> None:
        """Let the books show the last start. Nobody looks at them after the last of a cycle."""
        if self._untaken is not None:
            self._trial.take(*self._untaken)
            self._untaken = None

    def _cannot_start(self, queue: ClassQueue, job_id: JobId, promise: Reservation | None) -> None:
        """The head of a class is in nobody's way unless the rules put it there."""
        rules, job_class = self._rules, queue.job_class
        if rules.preemption is not None and self._others_give_way(queue, job_id):
            return
        if self._ranking is not None and self._outranked_give_way(queue, job_id, self._ranking):
            return
        entry = self._entry(job_id)
        waited = self._now - entry.job.submitted_at
        is_overdue = rules.hold_after_ms is not None and waited >= rules.hold_after_ms
        if rules.passing is Passing.GREEDY and not is_overdue:
            return
        if self._is_refused is None:
            self._is_refused = refuse(self._books, job_class) is not None
        if self._is_refused:
            return  # not for want of room: nobody behind it makes it wait
        if rules.passing is Passing.STRICT:
            # What can never start would keep everybody waiting for ever.
            self._is_over = self._could_ever_hold(queue)
            self.stopped_by = job_id if self._is_over else None
        elif len(self.reservations) < self._most_reservations():
            found = self._opening(queue, promise, is_overdue)
            if found is not None:
                self._reserve(entry, found)

    def _could_ever_hold(self, queue: ClassQueue) -> bool:
        known = self._books.ever_holds.get(queue.shape)
        if known is None:
            nodes = [self._books.node(node_id).node for node_id in self._books.node_ids()]
            known = could_ever_hold(nodes, queue.job_class)
            self._books.ever_holds[queue.shape] = known
        return known

    def _most_reservations(self) -> int:
        return self._rules.depth if self._rules.passing is Passing.CONSERVATIVE else 1

    def _opening(
        self, queue: ClassQueue, promise: Reservation | None, is_overdue: bool
    ) -> Opening | None:
        """Where and when it will have room; what it was told before, if that is no later."""
        found, job_class = None, queue.job_class
        most = max(_MOST_OPENINGS, _MOST_LOOKED_AT // max(1, len(self._books.nodes)))
        limit = job_class.time_limit_ms if self._holds else None
        alike = (queue.shape, limit, is_overdue)
        if alike not in self._no_opening and self._openings < max(most, self._most_reservations()):
            self._openings += 1
            found = opening(self._trial, self._holds, job_class, self._now, patient=is_overdue)
            if found is None and job_class.booking is None:
                self._no_opening.add(alike)
        if promise is not None and (found is None or promise.at < found.at):
            return Opening(promise.at, promise.placement)
        return found

    def _reserve(self, entry: Entry, found: Opening) -> None:
        # Where nobody knows when it can start, nobody new may come onto the GPUs it waits for.
        starts_at = self._now if found.at == FAR else found.at
        self._holds.add(entry.job, found.placement, starts_at)
        self.reservations.append(Reservation(entry.job.job_id, found.at, found.placement))

    def _others_give_way(self, queue: ClassQueue, job_id: JobId) -> bool:
        alike = _alike(queue)
        failed_at = self._no_victims.get(alike)
        if failed_at is not None and queue.job_class.priority <= failed_at:
            return False
        search = self._search(queue.job_class)
        if search is None:
            return False
        eviction = search.find(job_id)
        if eviction is None:
            self._no_victims[alike] = queue.job_class.priority
        return self._promise(self._entry(job_id).job, eviction)

    def _outranked_give_way(self, queue: ClassQueue, job_id: JobId, order: Ranking) -> bool:
        rules = self._rules.preemption
        if rules is None:
            return False
        if self._outranked is None:
            self._outranked = Outranked(self._state, order, rules, self._now)
            self._outranked.leave_out(p.victim for p in self.preemptions)
        entry = self._entry(job_id)
        eviction = self._outranked.find(entry, _alike(queue), self._trial, self._holds)
        return self._promise(entry.job, eviction)

    def _search(self, job_class: JobClass, *, whoever: bool = False) -> Search | None:
        """None where it would be in vain, or too much for one cycle; `whoever` minds no
        priorities."""
        rules = self._rules.preemption
        if rules is None or not (whoever or self._could_push_out(job_class, rules)):
            return None
        if self._candidates is None:
            self._candidates = Candidates(self._state, rules, self._now, self._borrowers)
            self._candidates.leave_out(p.victim for p in self.preemptions)
        if not self._candidates.all:
            return None
        if self._searches >= max(_MOST_SEARCHES, _MOST_ASKED // len(self._candidates.all)):
            return None
        self._searches += 1
        return Search(self._trial, self._holds, self._candidates, job_class, rules)

    def _could_push_out(self, job_class: JobClass, rules: PreemptionRules) -> bool:
        """Whether somebody is less important, or runs on borrowed quota: cheap to say."""
        lowest = self._state.lowest_placed_priority()
        is_least = lowest is None or lowest > job_class.priority - rules.margin
        return bool(self._borrowers) or not is_least

    def _promise(self, job: Job, eviction: Eviction | None) -> bool:
        """Keep the place that others give up for the job, if they do."""
        if eviction is None:
            return False
        self.preemptions += eviction.victims
        self.claims.append(Claim(job.job_id, eviction.placement))
        self._holds.add(job, eviction.placement, self._now)
        return True

    def _entry(self, job_id: JobId) -> Entry:
        entry = self._state.entry(job_id)
        assert entry is not None  # the queue and the entries are two indexes of one thing
        return entry


def _alike(queue: ClassQueue) -> tuple[object, ...]:
    """All that a search for those who give way minds, but for the priority."""
    one = queue.job_class
    return (queue.shape, one.tenant_id, one.queue, one.time_limit_ms, one.booking, one.array_id)


def _is_in_the_way(entry: Entry, booking: Booking, booked: frozenset[int]) -> bool:
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


def _by_queue(
    state: State, served: Collection[JobId]
) -> list[tuple[TenantQueue, dict[JobId, Job]]]:
    """Every queue in which somebody waits, higher ones first, with its jobs, oldest first."""
    keys: dict[tuple[TenantId, str], list[QueueKey]] = {}
    for waiting in state.waiting.classes():
        owner = (waiting.job_class.tenant_id, waiting.job_class.queue)
        keys.setdefault(owner, []).extend(waiting.keys)
    found = []
    for (tenant_id, name), members in keys.items():
        use = state.ledger.queue(tenant_id, name)
        queue = use.queue if use is not None else TenantQueue(tenant_id, name)
        jobs = {}
        for _, job_id in sorted(members):
            entry = state.entry(job_id)
            assert entry is not None
            if job_id not in served:
                jobs[job_id] = entry.job
        found.append((queue, jobs))
    found.sort(key=lambda pair: (-pair[0].priority, pair[0].tenant_id, pair[0].name))
    return found
