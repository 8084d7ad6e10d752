"""Simulates a past period again: same submissions, same nodes, new decisions.

Like the simulator it only drives: who starts where is `core.cycle.schedule`, what comes of a plan
is `core.plan_events`. Unlike it, it begins with what ran and waited, and what came from outside
comes again: quotas that were changed, nodes that failed, jobs that were held or cancelled.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Final

from tgpu.core.model import lifecycle
from tgpu.core.model.events import (
    BookingRemoved,
    ClockStepped,
    Event,
    JobChanged,
    JobMoved,
    JobsSubmitted,
    NodeSet,
    SettingsSet,
    TenantSet,
    TimePassed,
)
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import PLACED, TERMINAL, JobState, Move
from tgpu.core.model.node import Node
from tgpu.core.model.plan import BackfillReservation, Plan
from tgpu.core.model.tenant import Tenant
from tgpu.core.plan_events import VIRTUAL, job_ended, may_find_more, plan_events
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.core.state.clock_step import moved_by
from tgpu.core.state.cluster_state import Entry
from tgpu.journal.lines import Values
from tgpu.journal.rebuild import RecordedForesight
from tgpu.journal.recorded_past import FOR_EVER, RecordedPast

# Cycles at one instant: each is made because jobs were preempted in the one before.
_MOST_ROUNDS: Final = 1_000
# While jobs wait, a cycle at least this often: orders and who may be preempted change with time.
_TICK_MS: Final = 60_000
_TELL_EVERY: Final = 500
_REMOVED: Final = "removed"

Tell = Callable[[int], None]


# The scheduling that follows from settings, with what is known of run times.
MakeScheduling = Callable[[Values | None, RecordedForesight], SchedulingConfig]


@dataclass(frozen=True, slots=True)
class Changes:
    """What is otherwise than it was. Settings are others through `MakeScheduling`."""

    quotas: Mapping[tuple[TenantId, str | None], int | None] = field(default_factory=dict)
    add: tuple[Node, ...] = ()
    remove: frozenset[NodeId] = frozenset()

    def tenant(self, tenant: Tenant) -> Tenant:
        for (tenant_id, gpu_type), millis in self.quotas.items():
            if tenant_id != tenant.tenant_id:
                continue
            if gpu_type is None:
                tenant = replace(tenant, max_gpu_millis=millis)
                continue
            others = tuple(one for one in tenant.max_gpu_millis_by_type if one[0] != gpu_type)
            own = () if millis is None else ((gpu_type, millis),)
            tenant = replace(tenant, max_gpu_millis_by_type=tuple(sorted((*others, *own))))
        return tenant

    def node(self, node: Node) -> Node:
        """One that is removed takes nobody new; who is on it when it begins ends there."""
        if node.node_id not in self.remove:
            return node
        return replace(node, gpus=tuple(replace(gpu, paused=_REMOVED) for gpu in node.gpus))


NO_CHANGES: Final = Changes()


@dataclass(slots=True)
class Fate:
    """What became of one job this time."""

    left_ms: int
    first_start: int | None = None
    since: int | None = None
    ended_at: int | None = None
    held_ms: int = 0
    lost_ms: int = 0
    preemptions: int = 0
    attempt: int = 0


@dataclass(slots=True)
class Resimulated:
    """The result: fates by job, and how many GPU-milliseconds (in thousandths) there were."""

    fates: dict[JobId, Fate]
    offered: int
    cycles: int


def resimulate(
    past: RecordedPast,
    make: MakeScheduling,
    changes: Changes = NO_CHANGES,
    *,
    tell: Tell | None = None,
) -> Resimulated:
    run = _Resimulation(past, make, changes)
    run.tell = tell
    run.through()
    return Resimulated(run.fates, run.offered, run.cycles)


class _Resimulation:
    def __init__(self, past: RecordedPast, make: MakeScheduling, changes: Changes) -> None:
        self.fates: dict[JobId, Fate] = {}
        self.offered = 0
        self.cycles = 0
        self.tell: Tell | None = None
        self._past = past
        self._make = make
        self._changes = changes
        rebuilt = past.beginning()
        self._state = rebuilt.state
        self._foresight = rebuilt.foresight
        self._now = past.begins
        self._ends: list[tuple[int, JobId, int]] = []  # when, who, in which attempt
        self._promises: tuple[BackfillReservation, ...] = ()
        self._gpus = 0
        self._scheduling = make(past.values, self._foresight)
        self._scheduling.set_up(self._state)
        self._change()
        for entry in self._state.entries():
            self._take_over(entry)
        heapify(self._ends)

    # -- the beginning -------------------------------------------------------------------------

    def _change(self) -> None:
        ledger, now = self._state.ledger, self._now
        for tenant_id in sorted(ledger.tenants):
            tenant = ledger.tenants[tenant_id].tenant
            if (changed := self._changes.tenant(tenant)) != tenant:
                self._state.apply(TenantSet(now, changed))
        for node_id in list(ledger.node_ids()):
            node = ledger.node(node_id).node
            if (other := self._changes.node(node)) != node:
                self._state.apply(NodeSet(now, other))
        for node in self._changes.add:
            self._state.apply(NodeSet(now, node))
        self._count_gpus()

    def _count_gpus(self) -> None:
        ledger = self._state.ledger
        self._gpus = sum(
            len(ledger.node(node_id).node.gpus)
            for node_id in ledger.node_ids()
            if node_id not in self._changes.remove
        )

    def _take_over(self, entry: Entry) -> None:
        job_id, progress = entry.job.job_id, entry.progress
        fate = self.fates[job_id] = Fate(self._past.left_ms(job_id))
        life = self._past.lives[job_id]
        if progress.state in PLACED:
            fate.since = self._now
            fate.attempt = progress.attempt
            fate.first_start = life.first_start
            heappush(self._ends, (self._now + fate.left_ms, job_id, fate.attempt))
        elif life.first_start is not None and life.first_start < self._now:
            fate.first_start = life.first_start  # it was preempted, or is tried again

    # -- time ----------------------------------------------------------------------------------

    def through(self) -> None:
        outside, position = self._past.outside, 0
        self._decide()
        while True:
            comes_at = outside[position].at if position < len(outside) else None
            now = self._next_instant(comes_at)
            if now is None or now > self._past.ends:
                break
            self._pass_time(now)
            self._end()
            while position < len(outside) and outside[position].at <= self._now:
                self._take(outside[position].event)
                position += 1
                if self.tell is not None and not position % _TELL_EVERY:
                    self.tell(_TELL_EVERY)
            self._decide()
        self._pass_time(self._past.ends)
        for fate in self.fates.values():
            if fate.since is not None:
                fate.held_ms += self._now - fate.since

    def _pass_time(self, now: int) -> None:
        self.offered += self._gpus * 1000 * (now - self._now)
        self._now = now

    def _next_instant(self, comes_at: int | None) -> int | None:
        candidates = [] if comes_at is None else [comes_at]
        if self._ends:
            candidates.append(self._ends[0][0])
        wakes_at = self._state.wakes_at()
        if wakes_at is not None and wakes_at > self._now:
            candidates.append(wakes_at)
        if len(self._state.waiting):
            candidates.append(self._now - self._now % _TICK_MS + _TICK_MS)
        return min(candidates, default=None)

    # -- what happens ----------------------------------------------------------------------------

    def _end(self) -> None:
        while self._ends and self._ends[0][0] <= self._now:
            _, job_id, attempt = heappop(self._ends)
            fate = self.fates[job_id]
            if fate.attempt != attempt or fate.since is None:
                continue  # it was preempted meanwhile, or is over
            state = self._past.lives[job_id].state
            self._finish(job_id, state if state in TERMINAL else JobState.COMPLETED, None)

    def _finish(self, job_id: JobId, to: JobState, cause: str | None) -> None:
        entry = self._state.entry(job_id)
        if entry is not None:
            event = job_ended(entry, to, self._now, cause=cause)
            self._note_end(entry, event)
            self._state.apply(event)

    def _note_end(self, entry: Entry, event: JobMoved) -> None:
        self._foresight.nearby_submissions.moved(entry.job, event.progress)
        self._foresight.learn(entry, event)
        fate = self.fates[entry.job.job_id]
        fate.ended_at = self._now
        if fate.since is not None:
            fate.held_ms += self._now - fate.since
            fate.since = None

    def _take(self, event: Event) -> None:
        """What came from outside, as far as it still makes sense."""
        match event:
            case JobsSubmitted():
                for job in event.jobs:
                    self.fates[job.job_id] = Fate(self._past.left_ms(job.job_id))
                self._state.apply(event)
            case JobMoved():
                self._take_move(event)
            case JobChanged():
                entry = self._state.entry(event.job.job_id)
                if entry is not None and entry.progress.state is JobState.PENDING:
                    self._state.apply(event)
            case TenantSet():
                self._state.apply(TenantSet(event.at, self._changes.tenant(event.tenant)))
            case NodeSet():
                self._state.apply(NodeSet(event.at, self._changes.node(event.node)))
                self._count_gpus()
            case SettingsSet():
                self._scheduling = self._make(event.values, self._foresight)
                self._scheduling.set_up(self._state)
            case ClockStepped():
                self._step_clock(event.by)
            case BookingRemoved() if event.booking_id not in self._state.ledger.bookings:
                pass  # in this run it ended by itself before: nothing is left to remove
            case _:
                self._state.apply(event)

    def _step_clock(self, by: int) -> None:
        """What runs here goes along with it, whatever ran then."""
        self._now += by
        self._state.apply(ClockStepped(self._now, by, moved_by(self._state, by)))
        self._ends = [(at + by, job_id, attempt) for at, job_id, attempt in self._ends]
        for fate in self.fates.values():
            fate.since = None if fate.since is None else fate.since + by
            if fate.ended_at is None and fate.first_start is not None:
                fate.first_start += by

    def _take_move(self, event: JobMoved) -> None:
        entry = self._state.entry(event.job_id)
        if entry is None:
            return
        if event.move is Move.CANCEL:
            self._finish(event.job_id, JobState.CANCELLED, event.progress.cause)
        elif entry.progress.state is JobState.PENDING:
            held = lifecycle.hold(event.job_id, entry.progress, event.move is Move.HOLD)
            self._state.apply(JobMoved(self._now, event.job_id, event.move, held))

    # -- what is decided -------------------------------------------------------------------------

    def _decide(self) -> None:
        state = self._state
        state.apply(TimePassed(self._now))
        for _ in range(_MOST_ROUNDS):
            scheduling = self._scheduling
            plan = scheduling.decide(state, self._now, self._promises)
            self.cycles += 1
            self._promises = plan.reservations
            self._carry_out(plan)
            if not may_find_more(plan, scheduling.rules):
                break

    def _carry_out(self, plan: Plan) -> None:
        for event in plan_events(self._state, plan, self._now, VIRTUAL):
            if isinstance(event, JobMoved):
                self._note(event)
            self._state.apply(event)

    def _note(self, event: JobMoved) -> None:
        """What a move means for a job's fate, before it is applied."""
        entry = self._entry(event.job_id)
        if event.move is Move.START:
            self._note_start(entry.job, event.progress.attempt)
        elif event.move is Move.PREEMPT:
            self._note_preemption(entry.job)
        elif event.progress.state in TERMINAL:
            self._note_end(entry, event)

    def _note_start(self, job: Job, attempt: int) -> None:
        job_id, now = job.job_id, self._now
        self._foresight.nearby_submissions.began(job, now)
        fate = self.fates[job_id]
        fate.since, fate.attempt = now, attempt
        fate.first_start = now if fate.first_start is None else fate.first_start
        if fate.left_ms < FOR_EVER:
            heappush(self._ends, (now + fate.left_ms, job_id, attempt))

    def _note_preemption(self, job: Job) -> None:
        """What it did since it began is lost."""
        fate = self.fates[job.job_id]
        self._foresight.nearby_submissions.came_back(job)
        had = 0 if fate.since is None else self._now - fate.since
        fate.held_ms += had
        fate.lost_ms += had
        fate.preemptions += 1
        fate.since, fate.attempt = None, 0
        fate.left_ms = self._past.whole_ms(job.job_id)

    def _entry(self, job_id: JobId) -> Entry:
        entry = self._state.entry(job_id)
        assert entry is not None  # a plan names only jobs of the state it was made on
        return entry
