"""Drives the core by a trace: at each instant first ends, then arrivals, then cycles.

Nothing here decides: who starts where is `core.cycle.schedule`, what comes of a plan is
`core.plan_events`, what is true is `core.state`. Partitions have nothing to do with each other, so
each is a cluster of its own, run from its first arrival to its last end; large ones at the same
time, in processes of their own.
"""

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Final, NamedTuple

from tgpu.core.model.events import JobMoved, JobsSubmitted, NodeSet, TenantSet, TimePassed
from tgpu.core.model.fragmentation import MIX, unusable
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import TERMINAL, JobState, Move
from tgpu.core.model.node import Node
from tgpu.core.model.plan import BackfillReservation, Plan
from tgpu.core.model.rules import BackfillMode
from tgpu.core.model.tenant import Tenant
from tgpu.core.model.units import GPU
from tgpu.core.plan_events import (
    Execution,
    frees_something,
    job_ended,
    may_find_more,
    plan_events,
)
from tgpu.core.policies.fifo import Fifo
from tgpu.core.reservations.reserved_capacity import FAR
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.core.state.cluster_state import Entry, State
from tgpu.simulate.foresight import Learner, SimulatedForesight
from tgpu.simulate.restart import LOSES_ALL, Restart
from tgpu.simulate.result import JobOutcome, Result, Sample, Span
from tgpu.simulate.side_by_side import Tell, processors, side_by_side
from tgpu.simulate.time_slicing import TimeSliced, schedule_round
from tgpu.simulate.world import Arrival, Cluster

Show = Callable[[int, Plan], None]  # is shown the plan of every cycle, with its instant

_TELL_EVERY: Final = 2_000
_FEW: Final = 4_000  # jobs that are over sooner than a process has begun
_SAMPLES: Final = 400  # between the first arrival and the last
_MOST_SAMPLES: Final = 4_000  # while all the work is done, if every GPU is busy
# Cycles at one instant: each is made because jobs were preempted in the one before.
_MOST_ROUNDS: Final = 1_000
_MOST_VAIN: Final = 100
_WEIGHT: Final = sum(weight for _, weight in MIX)
# Names at hand: those of an enum are looked up each time.
_COMPLETED: Final = JobState.COMPLETED
_START: Final = Move.START


@dataclass(frozen=True, slots=True)
class Setting:
    """How the cluster is scheduled."""

    scheduling: SchedulingConfig
    restart: Restart = LOSES_ALL
    # A cycle at least this often while somebody waits, for orders that change with time alone.
    tick_ms: int | None = None
    # Also the cycles of which it is known that they change nothing: slower, with the same result.
    every_cycle: bool = False
    # Cycles until one decides nothing, as in the service: slower, and seldom another result, since
    # what starts alone leads to is mostly found at the next event anyway.
    settles: bool = False
    # Predicts run times, and makes the configuration that goes by them, in place of `scheduling`.
    foresight: SimulatedForesight | None = None

    # Gives the GPUs out in rounds, in place of the service's cycle: to compare with.
    time_slicing: TimeSliced | None = None

    def __post_init__(self) -> None:
        rounds = self.time_slicing
        if rounds is not None and self.tick_ms != rounds.round_ms:
            raise ValueError(f"tick_ms must be {rounds.round_ms}, the policy's, not {self.tick_ms}")


def simulate(
    arrivals: Iterable[Arrival],
    cluster: Cluster,
    setting: Setting,
    *,
    tell: Tell | None = None,
    show: Show | None = None,
    processes: int | None = None,
) -> Result:
    """Run a trace until its last job is over, or can never start.

    `tell` is told now and then how many more jobs are over. At most so many `processes` work on it,
    one for each processor unless said otherwise; how many there are changes nothing in the result.
    Who wants to be shown the plans gets them in the order of partitions: from this process alone.
    """
    ordered = sorted(arrivals, key=_age)
    by_partition: dict[str, list[Arrival]] = {}
    for arrival in ordered:
        by_partition.setdefault(arrival.partition, []).append(arrival)
    grid = _grid(ordered, cluster)
    names = sorted(by_partition)
    tell = tell or _tell_nobody

    def run(name: str, tell: Tell, show: Show | None = None) -> _Ran:
        one = _Run(cluster.partitions.get(name, ()), cluster.tenants, setting, grid)
        one.tell, one.show = tell, show
        return one.through(by_partition[name])

    most = processors() if processes is None else processes
    with _no_collector():
        if show is None and most > 1 and _is_worth_it(by_partition):
            largest = sorted(names, key=lambda name: (-len(by_partition[name]), name))
            ran = side_by_side([partial(run, name) for name in largest], most, tell)
            by_name = dict(zip(largest, ran, strict=True))
        else:
            by_name = {name: run(name, tell, show) for name in names}
        return _together(ordered, by_partition, by_name)


@contextmanager
def _no_collector() -> Iterator[None]:
    """A run makes no cycles, but so much that the collector would look at all of it again and
    again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _tell_nobody(more: int) -> None:
    pass


_age: Final = attrgetter("job.submitted_at", "job.job_id")


def _is_worth_it(by_partition: dict[str, list[Arrival]]) -> bool:
    """Whether beside the largest partition there is enough for another process."""
    sizes = [len(members) for members in by_partition.values()]
    return bool(sizes) and sum(sizes) - max(sizes) >= _FEW


class _Ran(NamedTuple):
    """What became of one partition. It may come from another process: the fields of `Outcome`
    behind the arrival, each for all jobs in the order in which they came."""

    columns: tuple[list[Any], ...]
    samples: list[Sample]
    cycles: int


def _together(
    arrivals: list[Arrival],
    by_partition: dict[str, list[Arrival]],
    by_name: dict[str, _Ran],
) -> Result:
    outcomes: dict[str, Iterator[JobOutcome]] = {}
    samples: dict[int, Sample] = {}
    for name, ran in by_name.items():
        outcomes[name] = map(JobOutcome, by_partition[name], *ran.columns)
        for sample in ran.samples:
            known = samples.get(sample.at)
            samples[sample.at] = sample if known is None else known.plus(sample)
    return Result(
        tuple([next(outcomes[arrival.partition]) for arrival in arrivals]),
        tuple([samples[at] for at in sorted(samples)]),
        sum(ran.cycles for ran in by_name.values()),
    )


def _grid(arrivals: list[Arrival], cluster: Cluster) -> tuple[int, int]:
    """The first sample of all partitions, and how far samples lie apart."""
    if not arrivals:
        return 0, 1
    first, last = arrivals[0].job.submitted_at, arrivals[-1].job.submitted_at
    # Where all come at once, what they do takes much longer than their coming.
    gpus = sum(len(node.gpus) for nodes in cluster.partitions.values() for node in nodes)
    work = sum([one.run_ms * one.job.request.gpu_millis for one in arrivals]) // (
        GPU * max(1, gpus)
    )
    longest = max(work, max([one.run_ms for one in arrivals]))
    return first, max(1, (last - first) // _SAMPLES, longest // _MOST_SAMPLES)


@dataclass(slots=True)
class _Life:
    """A job on its way through the run."""

    arrival: Arrival
    left_ms: int
    state: JobState = JobState.PENDING
    attempt: int = 0
    started_at: int | None = None
    last_start: int | None = None
    ended_at: int | None = None
    preemptions: int = 0
    earlier: tuple[Span, ...] = ()


def _columns(lives: list[_Life]) -> tuple[list[Any], ...]:
    return (
        [life.state for life in lives],
        [life.started_at for life in lives],
        [life.ended_at for life in lives],
        [life.preemptions for life in lives],
        [life.earlier for life in lives],
        [life.last_start for life in lives],
    )


class _Run:
    """One partition."""

    def __init__(
        self,
        nodes: Sequence[Node],
        tenants: Sequence[Tenant],
        setting: Setting,
        grid: tuple[int, int],
    ) -> None:
        self.state = State()
        self.samples: list[Sample] = []
        self.cycles = 0
        self.tell: Tell = _tell_nobody
        self.show: Show | None = None
        self._setting = setting
        self._scheduling = setting.scheduling
        self._rules = setting.scheduling.rules
        self._sample_at, self._step = grid
        self._gpu_millis = GPU * sum(len(node.gpus) for node in nodes)
        self._lives: dict[JobId, _Life] = {}
        # When, who, in which attempt: no two are alike in that.
        self._ends: list[tuple[int, JobId, int, _Life]] = []
        self._promises: tuple[BackfillReservation, ...] = ()
        self._over = self._told = 0
        self._vain = 0  # cycles in which nothing started, although nothing was under way
        self._is_stopped = False
        self._may_skip = not setting.every_cycle and _keeps_its_head(setting)
        for tenant in tenants:
            self.state.apply(TenantSet(0, tenant))
        for node in nodes:
            self.state.apply(NodeSet(0, node))
        setting.scheduling.set_up(self.state)
        has_budgets = any(tenant.budget is not None for tenant in tenants)
        self.state.measures = has_budgets or not isinstance(setting.scheduling.policy, Fifo)
        self._wakes = has_budgets
        self._is_moved_by_events = False  # time alone changes nothing
        # Only jobs known to run are preempted; nothing else asks whether a start was confirmed.
        is_asked = self._rules.preemption is not None
        self._execution = Execution(is_asked, evicts_at_once=True, saved_at=self._saved_at)
        self._learner: Learner | None = None
        preemption = self._rules.preemption
        self._min_run_ms = 0 if preemption is None else preemption.min_run_ms
        self._may_be_preempted: deque[int] = deque()  # a running job may, from these on

    def through(self, arrivals: list[Arrival]) -> _Ran:
        """`arrivals` are in order of time."""
        self._prepare(arrivals)
        instants: list[int | None] = [arrival.job.submitted_at for arrival in arrivals]
        instants.append(None)  # nobody comes any more
        position, arrives_at, ends = 0, instants[0], self._ends
        while (now := self._next_instant(arrives_at)) is not None:
            if self._sample_at < now:
                self._sample(now)
            freed = bool(ends) and ends[0][0] <= now
            if freed:
                self._end(now)
            if arrives_at == now:
                first = position
                while arrives_at == now:
                    position += 1
                    arrives_at = instants[position]
                self._submit(now, arrivals[first:position])
            if freed or not self._is_stopped:
                self._decide(now)
        self._say(self._over - self._told)
        return _Ran(_columns(list(self._lives.values())), self.samples, self.cycles)

    def _prepare(self, arrivals: list[Arrival]) -> None:
        foresight = self._setting.foresight
        if foresight is not None and arrivals:
            self._learner = Learner(foresight, arrivals[0].job.submitted_at)
            self._scheduling = self._learner.scheduling
            self._rules = self._scheduling.rules
        known = self.state.ledger.tenants
        for tenant_id in dict.fromkeys(arrival.job.tenant_id for arrival in arrivals):
            if tenant_id not in known:
                self.state.apply(TenantSet(0, Tenant(tenant_id)))
        self._wakes = self._wakes or any(
            arrival.job.options.lease or arrival.job.options.booking is not None
            for arrival in arrivals
        )
        self._is_moved_by_events = (
            not self._wakes and self._setting.tick_ms is None and not self._min_run_ms
        )

    # -- time --------------------------------------------------------------------------------------

    def _next_instant(self, arrives_at: int | None) -> int | None:
        found, ends = arrives_at, self._ends
        if ends and (found is None or ends[0][0] < found):
            found = ends[0][0]
        if self._is_moved_by_events and found is not None:
            return found
        if self._wakes:
            wakes_at = self.state.wakes_at()
            if wakes_at is not None and wakes_at > self.state.now:
                found = wakes_at if found is None else min(found, wakes_at)
        if self._may_be_preempted and len(self.state.waiting):
            found = self._next_maturity(found)
        if found is None and self._promises:
            found = self._next_promise()
        tick = self._setting.tick_ms
        if tick is not None and len(self.state.waiting):
            found = self._next_tick(tick, found)
        return found

    def _next_maturity(self, found: int | None) -> int | None:
        while self._may_be_preempted and self._may_be_preempted[0] <= self.state.now:
            self._may_be_preempted.popleft()
        if not self._may_be_preempted:
            return found
        return self._may_be_preempted[0] if found is None else min(found, self._may_be_preempted[0])

    def _next_tick(self, tick: int, found: int | None) -> int | None:
        at = self.state.now - self.state.now % tick + tick
        if found is not None:
            return min(found, at)
        if self._vain >= _MOST_VAIN:
            return None  # nothing is under way, and it would go on for ever
        self._vain += 1
        return at

    def _next_promise(self) -> int | None:
        """Nothing is under way, and somebody waits for what is kept free for others."""
        if self._vain >= _MOST_VAIN:
            return None
        self._vain += 1
        return min(
            (one.at for one in self._promises if self.state.now < one.at < FAR), default=None
        )

    def _sample(self, until: int) -> None:
        """Note what is true since the last instant, for each point in time before `until`."""
        free = wasted = 0
        index = self.state.ledger.index()  # by sorts of nodes: there may be very many nodes
        for gpu_type in index.types():
            for group in index.groups(gpu_type):
                amounts, count = [millis for millis, _ in group.cells], len(group.nodes)
                free += sum(amounts) * count
                wasted += unusable(amounts) * count
        used = self._gpu_millis - free
        waiting = len(self.state.waiting)
        while self._sample_at < until:
            self.samples.append(Sample(self._sample_at, used, waiting, wasted // _WEIGHT))
            self._sample_at += self._step

    # -- what happens ------------------------------------------------------------------------------

    def _submit(self, now: int, arrivals: list[Arrival]) -> None:
        lives, linger_ms = self._lives, self._setting.restart.linger_ms
        for arrival in arrivals:
            lives[arrival.job.job_id] = _Life(arrival, arrival.run_ms + linger_ms)
        self.state.apply(JobsSubmitted(now, tuple([arrival.job for arrival in arrivals])))

    def _end(self, now: int) -> None:
        ends = self._ends
        while ends and ends[0][0] <= now:
            _, job_id, attempt, life = heappop(ends)
            if life.attempt != attempt or life.ended_at is not None:
                continue  # it was preempted meanwhile
            limit, entry = life.arrival.job.options.time_limit_ms, self._entry(job_id)
            if limit is not None and limit < life.left_ms:
                over = job_ended(entry, JobState.FAILED, now, cause="time limit reached")
            else:
                over = job_ended(entry, _COMPLETED, now, exit_code=0)
            self.state.apply(over)
            self._note_end(life, over.progress.state, now)

    def _note_end(self, life: _Life, to: JobState, now: int) -> None:
        life.state, life.ended_at = to, now
        if self._learner is not None and life.last_start is not None:
            was_preempted = bool(life.preemptions)
            self._learner.ended(
                life.arrival.job, now - life.last_start, now, was_preempted=was_preempted
            )
        self._over += 1
        if self._over - self._told >= _TELL_EVERY:
            self._say(self._over - self._told)

    def _say(self, more: int) -> None:
        self._told += more
        self.tell(more)

    # -- what is decided ---------------------------------------------------------------------------

    def _decide(self, now: int) -> None:
        state, setting = self.state, self._setting
        if not setting.every_cycle and state.is_quiet():
            return
        if setting.tick_ms is not None:  # one may have been left out, when nobody waited
            state.apply(TimePassed(now - now % setting.tick_ms))
        state.apply(TimePassed(now))
        if self._learner is not None:
            self._learner.reach(now)
        for _ in range(_MOST_ROUNDS):
            plan = self._plan(now)
            self.cycles += 1
            if self.show is not None:
                self.show(now, plan)
            self._promises = plan.reservations
            self._is_stopped = self._may_skip and plan.stopped_by is not None
            self._carry_out(plan, now)
            if not self._leads_further(plan):
                break

    def _plan(self, now: int) -> Plan:
        rounds = self._setting.time_slicing
        if rounds is not None:
            return schedule_round(self.state, now, rounds, self._rules)
        return self._scheduling.decide(self.state, now, self._promises)

    def _leads_further(self, plan: Plan) -> bool:
        return may_find_more(plan, self._rules) if self._setting.settles else frees_something(plan)

    def _carry_out(self, plan: Plan, now: int) -> None:
        state, lives = self.state, self._lives
        for event in plan_events(state, plan, now, self._execution):
            state.apply(event)
            if not isinstance(event, JobMoved):
                continue
            move, life = event.move, lives[event.job_id]
            if move is _START:
                self._note_start(life, event.progress.attempt, now)
            elif move is Move.PREEMPT:
                self._note_preemption(life, now)
            elif event.progress.state in TERMINAL:
                self._note_end(life, event.progress.state, now)

    def _note_start(self, life: _Life, attempt: int, now: int) -> None:
        job = life.arrival.job
        self._vain = 0
        life.attempt = attempt
        life.last_start = now
        if life.started_at is None:
            life.started_at = now
        limit = job.options.time_limit_ms
        runs = life.left_ms if limit is None else min(limit, life.left_ms)
        heappush(self._ends, (now + runs, job.job_id, attempt, life))
        if self._min_run_ms:
            self._may_be_preempted.append(now + self._min_run_ms)
        if self._learner is not None:
            self._learner.began(job, now)

    def _saved_at(self, entry: Entry, now: int) -> int:
        """Up to when the work of a job that is preempted now counts."""
        life = self._lives[entry.job.job_id]
        began = life.last_start
        assert began is not None  # a preempted job was running
        return min(now, began + max(0, life.left_ms - self._left_ms(life, now)))

    def _left_ms(self, life: _Life, now: int) -> int:
        assert life.last_start is not None
        gpu_millis = life.arrival.job.request.gpu_millis
        return self._setting.restart.left_ms(life.left_ms, now - life.last_start, gpu_millis)

    def _note_preemption(self, life: _Life, now: int) -> None:
        assert life.last_start is not None
        life.left_ms = self._left_ms(life, now)
        life.earlier = (*life.earlier, (life.last_start, now))
        life.preemptions += 1
        life.attempt = 0  # the end that was set for it is none
        life.last_start = None
        if self._learner is not None:
            self._learner.came_back(life.arrival.job)

    def _entry(self, job_id: JobId) -> Entry:
        entry = self.state.entry(job_id)
        assert entry is not None  # it is not over
        return entry


def _keeps_its_head(setting: Setting) -> bool:
    """Whether the first job that cannot start stays first, and stops the others, until GPUs become
    free: then arrivals alone change nothing."""
    rules = setting.scheduling.rules
    return (
        isinstance(setting.scheduling.policy, Fifo)
        and rules.backfill is BackfillMode.STRICT
        and rules.preemption is None
    )
