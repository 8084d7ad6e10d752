"""Drive the core by a trace: at each instant first the ends, then the arrivals, then one cycle.

Nothing here decides: who starts where is `core.cycle.schedule`, what a move changes is
`core.lifecycle`, what is true is `core.state`. Partitions have nothing to do with each other, so
each is a cluster of its own, run from its first arrival to its last end.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final

from gpu_scheduler.core import lifecycle
from gpu_scheduler.core.cycle import schedule
from gpu_scheduler.core.events import JobMoved, JobsSubmitted, NodeSet, TenantSet, TimePassed
from gpu_scheduler.core.fragmentation import MIX, unusable
from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.lifecycle import JobState, Move
from gpu_scheduler.core.node import Node
from gpu_scheduler.core.plan import Plan, Preemption, Reservation, Start
from gpu_scheduler.core.policies.fifo import Fifo
from gpu_scheduler.core.policy import Policy
from gpu_scheduler.core.rules import PLAIN, Passing, PlacementRule, Rules
from gpu_scheduler.core.stages.hold import FAR
from gpu_scheduler.core.state import Entry, State
from gpu_scheduler.core.tenant import Tenant
from gpu_scheduler.core.units import GPU
from gpu_scheduler.simulate.restart import LOSES_ALL, Restart
from gpu_scheduler.simulate.result import Outcome, Result, Sample, Span
from gpu_scheduler.simulate.world import Arrival, Cluster

Tell = Callable[[int], None]  # is told now and then how many more jobs are over
Show = Callable[[int, Plan], None]  # is shown the plan of every cycle, with its instant

_TELL_EVERY: Final = 2_000
_SAMPLES: Final = 400  # between the first arrival and the last
# Cycles at one instant: each is made because jobs gave way in the one before.
_MOST_ROUNDS: Final = 1_000
_MOST_VAIN: Final = 100
_WEIGHT: Final = sum(weight for _, weight in MIX)


@dataclass(frozen=True, slots=True)
class Setting:
    """How the cluster is scheduled."""

    policy: Policy
    rules: Rules = PLAIN
    placement: PlacementRule = PlacementRule.FRAGMENTATION
    restart: Restart = LOSES_ALL
    # A cycle at least this often while somebody waits, for orders that change with time alone.
    tick_ms: int | None = None
    # Also the cycles of which it is known that they change nothing: slower, with the same result.
    every_cycle: bool = False


def simulate(
    arrivals: Iterable[Arrival],
    cluster: Cluster,
    setting: Setting,
    *,
    tell: Tell | None = None,
    show: Show | None = None,
) -> Result:
    """Run a trace until its last job is over, or can never start."""
    by_partition: dict[str, list[Arrival]] = {}
    for arrival in arrivals:
        by_partition.setdefault(arrival.partition, []).append(arrival)
    for members in by_partition.values():
        members.sort(key=_by_age)
    grid = _grid(by_partition.values())
    outcomes: list[Outcome] = []
    samples: dict[int, Sample] = {}
    cycles = 0
    for name in sorted(by_partition):
        run = _Run(cluster.partitions.get(name, ()), cluster.tenants, setting, grid)
        run.tell, run.show = tell, show
        outcomes += run.through(by_partition[name])
        cycles += run.cycles
        for sample in run.samples:
            known = samples.get(sample.at)
            samples[sample.at] = sample if known is None else known.plus(sample)
    outcomes.sort(key=lambda outcome: _by_age(outcome.arrival))
    return Result(tuple(outcomes), tuple(samples[at] for at in sorted(samples)), cycles)


def _by_age(arrival: Arrival) -> tuple[int, str]:
    return arrival.job.submitted_at, arrival.job.job_id


def _grid(partitions: Iterable[list[Arrival]]) -> tuple[int, int]:
    """The first sample of all partitions, and how far samples lie apart."""
    spans = [(some[0].job.submitted_at, some[-1].job.submitted_at) for some in partitions]
    first = min((start for start, _ in spans), default=0)
    return first, max(1, (max((end for _, end in spans), default=0) - first) // _SAMPLES)


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

    def outcome(self) -> Outcome:
        return Outcome(
            self.arrival,
            self.state,
            self.started_at,
            self.ended_at,
            self.preemptions,
            self.earlier,
            self.last_start,
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
        self.tell: Tell | None = None
        self.show: Show | None = None
        self._setting = setting
        self._sample_at, self._step = grid
        self._gpu_millis = GPU * sum(len(node.gpus) for node in nodes)
        self._lives: dict[JobId, _Life] = {}
        self._ends: list[tuple[int, JobId, int]] = []  # when, who, in which attempt
        self._promises: tuple[Reservation, ...] = ()
        self._over = self._told = 0
        self._vain = 0  # cycles in which nothing started, although nothing was under way
        self._is_stopped = False
        self._may_skip = not setting.every_cycle and _keeps_its_head(setting)
        for tenant in tenants:
            self.state.apply(TenantSet(0, tenant))
        for node in nodes:
            self.state.apply(NodeSet(0, node))
        self.state.ledger.placement_rule = setting.placement
        has_budgets = any(tenant.budget is not None for tenant in tenants)
        self.state.measures = has_budgets or not isinstance(setting.policy, Fifo)
        self._wakes = has_budgets
        # Only who is known to run gives way; nobody else asks whether a start was confirmed.
        self._confirms = setting.rules.preemption is not None

    def through(self, arrivals: list[Arrival]) -> list[Outcome]:
        """`arrivals` are in order of time."""
        self._prepare(arrivals)
        position, count = 0, len(arrivals)
        arrives_at = arrivals[0].job.submitted_at if arrivals else None
        while (now := self._next_instant(arrives_at)) is not None:
            if self._sample_at < now:
                self._sample(now)
            freed = bool(self._ends) and self._ends[0][0] <= now
            if freed:
                self._end(now)
            if arrives_at is not None and arrives_at <= now:
                first = position
                while position < count and arrivals[position].job.submitted_at == now:
                    position += 1
                self._submit(now, arrivals[first:position])
                arrives_at = arrivals[position].job.submitted_at if position < count else None
            if freed or not self._is_stopped:
                self._decide(now)
        self._say(self._over - self._told)
        return [self._lives[arrival.job.job_id].outcome() for arrival in arrivals]

    def _prepare(self, arrivals: list[Arrival]) -> None:
        known = self.state.ledger.tenants
        for tenant_id in dict.fromkeys(arrival.job.tenant_id for arrival in arrivals):
            if tenant_id not in known:
                self.state.apply(TenantSet(0, Tenant(tenant_id)))
        self._wakes = self._wakes or any(
            arrival.job.options.lease or arrival.job.options.booking is not None
            for arrival in arrivals
        )

    # -- time --------------------------------------------------------------------------------------

    def _next_instant(self, arrives_at: int | None) -> int | None:
        found = arrives_at
        if self._ends and (found is None or self._ends[0][0] < found):
            found = self._ends[0][0]
        if self._wakes:
            wakes_at = self.state.wakes_at()
            if wakes_at is not None and wakes_at > self.state.now:
                found = wakes_at if found is None else min(found, wakes_at)
        if found is None and self._promises:
            found = self._next_promise()
        tick = self._setting.tick_ms
        # Without anything under way, ticks would go on for ever.
        if tick is not None and found is not None and len(self.state.waiting):
            found = min(found, self.state.now + tick)
        return found

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
        lives = self._lives
        for arrival in arrivals:
            lives[arrival.job.job_id] = _Life(arrival, arrival.run_ms)
        self.state.apply(JobsSubmitted(now, tuple([arrival.job for arrival in arrivals])))

    def _end(self, now: int) -> None:
        ends = self._ends
        while ends and ends[0][0] <= now:
            _, job_id, attempt = heappop(ends)
            life = self._lives[job_id]
            if life.attempt != attempt or life.ended_at is not None:
                continue  # it gave way meanwhile
            limit = life.arrival.job.options.time_limit_ms
            if limit is not None and limit < life.left_ms:
                self._finish(self._entry(job_id), JobState.FAILED, now, "time limit reached")
            else:
                self._finish(self._entry(job_id), JobState.COMPLETED, now, None)

    def _finish(self, entry: Entry, to: JobState, now: int, cause: str | None) -> None:
        job_id = entry.job.job_id
        code = 0 if to is JobState.COMPLETED else None
        ended = lifecycle.end(job_id, entry.progress, to, now, exit_code=code, cause=cause)
        self.state.apply(JobMoved(now, job_id, _MOVES[to], ended))
        life = self._lives[job_id]
        life.state, life.ended_at = to, now
        self._over += 1
        if self._over - self._told >= _TELL_EVERY:
            self._say(self._over - self._told)

    def _say(self, more: int) -> None:
        self._told += more
        if self.tell is not None:
            self.tell(more)

    # -- what is decided ---------------------------------------------------------------------------

    def _decide(self, now: int) -> None:
        state, setting = self.state, self._setting
        if not setting.every_cycle and state.is_quiet():
            return
        state.apply(TimePassed(now))
        for _ in range(_MOST_ROUNDS):
            plan = schedule(
                state, now, setting.policy, rules=setting.rules, promises=self._promises
            )
            self.cycles += 1
            if self.show is not None:
                self.show(now, plan)
            self._promises = plan.reservations
            self._is_stopped = self._may_skip and plan.stopped_by is not None
            self._carry_out(plan, now)
            if not plan.preemptions:
                break

    def _carry_out(self, plan: Plan, now: int) -> None:
        for job_id in plan.expired:
            self._finish(self._entry(job_id), JobState.COMPLETED, now, "its time was up")
        for job_id, cause in plan.doomed:
            self._finish(self._entry(job_id), JobState.CANCELLED, now, cause)
        for preemption in plan.preemptions:
            self._preempt(preemption, now)
        for claim in plan.claims:
            progress = self._entry(claim.job_id).progress
            if progress.claim != claim.placement:
                claimed = lifecycle.claim(claim.job_id, progress, claim.placement)
                self.state.apply(JobMoved(now, claim.job_id, Move.CLAIM, claimed))
        for start in plan.starts:
            self._vain = 0
            self._start(start, now)

    def _start(self, start: Start, now: int) -> None:
        job_id = start.job_id
        entry = self._entry(job_id)
        placed = lifecycle.place(job_id, entry.progress, start.placement, now)
        self.state.apply(JobMoved(now, job_id, Move.START, placed))
        if self._confirms:
            running = lifecycle.run(job_id, placed, now, None)
            self.state.apply(JobMoved(now, job_id, Move.RUN, running))
        life = self._lives[job_id]
        life.attempt = placed.attempt
        life.last_start = now
        if life.started_at is None:
            life.started_at = now
        limit = entry.job.options.time_limit_ms
        runs = life.left_ms if limit is None else min(limit, life.left_ms)
        heappush(self._ends, (now + runs, job_id, placed.attempt))

    def _preempt(self, preemption: Preemption, now: int) -> None:
        """It is gone at once: nobody waits for a grace here."""
        entry, life = self._entry(preemption.victim), self._lives[preemption.victim]
        job, began = entry.job, life.last_start
        assert began is not None  # who gives way was running
        left = self._setting.restart.left_ms(life.left_ms, now - began, job.request.gpu_millis)
        kept_until = min(now, began + max(0, life.left_ms - left))
        asked = lifecycle.give_way(job.job_id, entry.progress, preemption.to, "gives way")
        asked = replace(asked, checkpoint_at=kept_until)
        gone = lifecycle.preempt(job.job_id, asked, now, job.request.gpu_millis)
        again = lifecycle.requeue(job.job_id, gone, now, "gave way", counts=False)
        self.state.apply(JobMoved(now, job.job_id, Move.PREEMPT, gone))
        self.state.apply(JobMoved(now, job.job_id, Move.REQUEUE, again))
        life.left_ms = left
        life.earlier = (*life.earlier, (began, now))
        life.preemptions += 1
        life.attempt = 0  # the end that was set for it is none
        life.last_start = None

    def _entry(self, job_id: JobId) -> Entry:
        entry = self.state.entry(job_id)
        assert entry is not None  # it is not over
        return entry


_MOVES: Final = {
    JobState.COMPLETED: Move.COMPLETE,
    JobState.FAILED: Move.FAIL,
    JobState.CANCELLED: Move.CANCEL,
}


def _keeps_its_head(setting: Setting) -> bool:
    """Whether the first job that cannot start stays first, and stops the others, until GPUs become
    free: then arrivals alone change nothing."""
    rules = setting.rules
    return (
        isinstance(setting.policy, Fifo)
        and rules.passing is Passing.STRICT
        and rules.preemption is None
    )
