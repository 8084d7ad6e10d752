"""Drive the core by a trace: instants from a heap, at each first ends, then arrivals, then a cycle.

Nothing here decides: who starts where is `core.cycle.schedule`, what a move changes is
`core.lifecycle`, what is true is `core.state`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from gpu_scheduler.core import lifecycle
from gpu_scheduler.core.cycle import schedule
from gpu_scheduler.core.events import JobMoved, JobsSubmitted, NodeSet, TenantSet, TimePassed
from gpu_scheduler.core.ids import JobId, TenantId
from gpu_scheduler.core.lifecycle import JobState, Move
from gpu_scheduler.core.node import Node
from gpu_scheduler.core.plan import Plan
from gpu_scheduler.core.policy import OrderPolicy, Policy
from gpu_scheduler.core.rules import PLAIN, Passing, PlacementRule, Rules
from gpu_scheduler.core.state import Entry, State
from gpu_scheduler.core.tenant import Tenant
from gpu_scheduler.simulate.restart import Restart
from gpu_scheduler.simulate.world import Arrival, Cluster

Progress = Callable[[int], None]  # is told now and then how many jobs more are over
Planned = Callable[[int, Plan], None]  # is shown every plan that a cycle made

_LOSES_ALL: Final = Restart()
_TELL_EVERY: Final = 1000


class Outcome(NamedTuple):
    """What became of one job; instants in milliseconds of the trace."""

    arrival: Arrival
    started_at: int | None  # the first time; None: it never did
    ended_at: int | None
    preemptions: int
    placement_nodes: tuple[str, ...]  # where it was last

    @property
    def jct_ms(self) -> int:
        return (self.ended_at or 0) - self.arrival.job.submitted_at

    @property
    def wait_ms(self) -> int:
        """All the time it did not get on: the queue, and what giving way cost it."""
        return self.jct_ms - self.arrival.run_ms


@dataclass(frozen=True, slots=True)
class Result:
    outcomes: tuple[Outcome, ...]  # in the order of arrival
    cycles: int
    unfinished: int  # jobs that could never start


@dataclass(frozen=True, slots=True)
class Setting:
    """How the cluster is scheduled."""

    policy: Policy
    rules: Rules = PLAIN
    placement: PlacementRule = PlacementRule.FRAGMENTATION
    restart: Restart = _LOSES_ALL
    # A cycle at least this often while somebody waits, for orders that change with time alone.
    tick_ms: int | None = None
    # Also cycles that can change nothing: slower, and the same result.
    every_cycle: bool = False


def simulate(
    arrivals: Iterable[Arrival],
    cluster: Cluster,
    setting: Setting,
    *,
    progress: Progress | None = None,
    planned: Planned | None = None,
) -> Result:
    """Run the trace until its last job is over."""
    by_partition: dict[str, list[Arrival]] = {}
    for arrival in arrivals:
        by_partition.setdefault(arrival.partition, []).append(arrival)
    outcomes: list[Outcome] = []
    cycles = unfinished = 0
    for name in sorted(by_partition):
        run = _Run(cluster.partitions[name], cluster.tenants, setting, progress, planned)
        outcomes += run.through(by_partition[name])
        cycles += run.cycles
        unfinished += run.state.live_count()
    outcomes.sort(key=_by_arrival)
    return Result(tuple(outcomes), cycles, unfinished)


def _by_arrival(outcome: Outcome) -> tuple[int, str]:
    job = outcome.arrival.job
    return job.submitted_at, job.job_id


@dataclass(slots=True)
class _Life:
    """A job on its way through the run."""

    arrival: Arrival
    left_ms: int
    attempt: int = 0
    started_at: int | None = None  # the first time
    runs_since: int = 0
    ended_at: int | None = None
    preemptions: int = 0
    nodes: tuple[str, ...] = ()


class _Run:
    """One partition, from its first arrival to its last end."""

    def __init__(
        self,
        nodes: Sequence[Node],
        tenants: Sequence[Tenant],
        setting: Setting,
        progress: Progress | None,
        planned: Planned | None,
    ) -> None:
        self.state = State()
        self.cycles = 0
        self._setting = setting
        self._progress = progress
        self._planned = planned
        self._lives: dict[JobId, _Life] = {}
        self._ends: list[tuple[int, JobId, int]] = []  # (when, who, which attempt)
        self._told = 0
        self._over = 0
        self._stopped_by: JobId | None = None
        self.state.ledger.placement_rule = setting.placement
        for tenant in tenants:
            self.state.apply(TenantSet(0, tenant))
        for node in nodes:
            self.state.apply(NodeSet(0, node))

    def through(self, arrivals: list[Arrival]) -> list[Outcome]:
        arrivals = sorted(arrivals, key=lambda one: (one.job.submitted_at, one.job.job_id))
        known = self.state.ledger.tenants
        for tenant_id in dict.fromkeys(one.job.tenant_id for one in arrivals):
            if tenant_id not in known:
                self.state.apply(TenantSet(0, Tenant(TenantId(tenant_id))))
        position, count = 0, len(arrivals)
        while True:
            now = self._next_instant(arrivals[position].job.submitted_at if position < count else None)
            if now is None:
                break
            freed = self._end(now)
            first = position
            while position < count and arrivals[position].job.submitted_at == now:
                position += 1
            if position > first:
                self._submit(now, arrivals[first:position])
            self._cycle(now, freed, arrivals[first:position])
        if self._progress is not None:
            self._progress(self._over - self._told)
        return [self._outcome(one) for one in arrivals]

    def _next_instant(self, arrives_at: int | None) -> int | None:
        found = arrives_at
        if self._ends and (found is None or self._ends[0][0] < found):
            found = self._ends[0][0]
        return found

    def _end(self, now: int) -> bool:
        ends, freed = self._ends, False
        while ends and ends[0][0] == now:
            _, job_id, attempt = heappop(ends)
            life = self._lives[job_id]
            if life.attempt != attempt or life.ended_at is not None:
                continue  # it gave way meanwhile
            entry = self.state.entry(job_id)
            assert entry is not None
            ended = lifecycle.end(job_id, entry.progress, JobState.COMPLETED, now, exit_code=0)
            self.state.apply(JobMoved(now, job_id, Move.COMPLETE, ended))
            life.ended_at = now
            freed = True
            self._over += 1
        return freed

    def _submit(self, now: int, arrivals: list[Arrival]) -> None:
        for arrival in arrivals:
            self._lives[arrival.job.job_id] = _Life(arrival, arrival.run_ms)
        self.state.apply(JobsSubmitted(now, tuple([one.job for one in arrivals])))

    def _cycle(self, now: int, freed: bool, fresh: list[Arrival]) -> None:
        state, setting = self.state, self._setting
        state.apply(TimePassed(now))
        plan = schedule(state, now, setting.policy, rules=setting.rules)
        self.cycles += 1
        for start in plan.starts:
            entry = state.entry(start.job_id)
            assert entry is not None
            placed = lifecycle.place(start.job_id, entry.progress, start.placement, now)
            state.apply(JobMoved(now, start.job_id, Move.START, placed))
            life = self._lives[start.job_id]
            life.attempt = placed.attempt
            life.runs_since = now
            if life.started_at is None:
                life.started_at = now
            heappush(self._ends, (now + life.left_ms, start.job_id, placed.attempt))

    def _outcome(self, arrival: Arrival) -> Outcome:
        life = self._lives[arrival.job.job_id]
        return Outcome(arrival, life.started_at, life.ended_at, life.preemptions, life.nodes)
