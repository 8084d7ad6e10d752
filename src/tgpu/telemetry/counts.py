"""The numbers behind the metrics, kept by watching commits, cycles and readings.

Plain integers and lists, since this runs beside every launch: names and labels are put to them
when somebody asks.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from tgpu.breaker import BreakerState
from tgpu.core.accounting.sla import Promise
from tgpu.core.model.cause import Fault
from tgpu.core.model.events import Event, JobMoved, JobsSubmitted
from tgpu.core.model.ids import NodeId, TenantId
from tgpu.core.model.lifecycle import TERMINAL, JobState, Move
from tgpu.core.model.plan import Plan
from tgpu.core.model.units import SECOND
from tgpu.core.projection.estimate import Announced
from tgpu.devices.api import Snapshot
from tgpu.service.reads.cluster_reads import ClusterReads
from tgpu.service.recording.observer import Observer
from tgpu.store.api import DecisionId
from tgpu.telemetry.promises import broken_promise

# Deciding takes 0.1 ms for a near-empty queue and 0.1 s for a very long one; a flush of a disk
# takes 1 ms, of a slow one 100.
QUICK: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
# Jobs wait and run for seconds or for days.
LONG: Final = (0.1, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86_400, 3 * 86_400, 604_800)

WITHIN: Final = ("p50", "p90", "later")

_FAILED: Final = frozenset({Move.FAIL, Move.REQUEUE})
_SAME_STATE: Final = frozenset(
    {
        *(Move.HOLD, Move.RELEASE, Move.STOP, Move.NOMINATE, Move.CHECKPOINT, Move.NOTE),
        *(Move.PAUSE, Move.RESUME),
    }
)


class HistogramTally:
    """A histogram: how many values up to each bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "count", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.count = 0
        self.sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.count += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as Prometheus wants them."""
        found = []
        total = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            found.append(("+Inf" if bound == float("inf") else str(float(bound)), float(total)))
        return found


class Counts(Observer):
    """`clock` is a monotonic one, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._cycled_at = self._began
        self.reads = ClusterReads()  # of nothing, until the service opens
        self.snapshots: dict[NodeId, Snapshot] = {}
        self.entered: Counter[JobState] = Counter()  # jobs that came into each state
        self.preemptions = 0
        self.failures: Counter[Fault] = Counter()  # attempts that did not end well
        self.budgets_reached: Counter[tuple[TenantId, int]] = Counter()  # by percent of them
        self.broken: Counter[Promise] = Counter()  # deadlines and wait targets that were missed
        self.estimated: Counter[str] = Counter(
            dict.fromkeys(WITHIN, 0)
        )  # starts, by what they kept
        self.estimate_errors = HistogramTally(LONG)
        self.waits = HistogramTally(LONG)
        self.waits_of: dict[TenantId, HistogramTally] = {}
        self.runs = {state: HistogramTally(LONG) for state in JobState if state in TERMINAL}
        self.cycles = HistogramTally(QUICK)
        self.starts = 0
        self.commits = HistogramTally(QUICK)
        self.events = 0
        self.commit_failures = 0
        self.clock_steps = 0  # the wall clock was set
        # What is left alone because it failed several times in a row.
        self.breakers = {"driver": BreakerState.CLOSED, "store": BreakerState.CLOSED}

    def uptime_seconds(self) -> float:
        return self._clock() - self._began

    def seconds_since_cycle(self) -> float:
        return self._clock() - self._cycled_at

    # -- what the service tells ------------------------------------------------------------------

    def opening(self, reads: ClusterReads) -> None:
        self.reads = reads

    def committed(
        self,
        events: Sequence[Event],
        causes: Sequence[str | None],
        seconds: float,
        decisions: Sequence[DecisionId] = (),
    ) -> None:
        self.commits.add(seconds)
        self.events += len(events)
        for event in events:
            if isinstance(event, JobMoved):
                if event.move not in _SAME_STATE:
                    self._moved(event)
            elif isinstance(event, JobsSubmitted):
                self.entered[JobState.PENDING] += len(event.jobs)

    def commit_failed(self, problem: str) -> None:
        self.commit_failures += 1

    def breaker_changed(self, of: str, state: BreakerState) -> None:
        self.breakers[of] = state

    def cycled(self, plan: Plan, seconds: float) -> None:
        self.cycles.add(seconds)
        self.starts += len(plan.starts)
        self._cycled_at = self._clock()

    def budget_reached(self, tenant_id: TenantId, percent: int) -> None:
        self.budgets_reached[tenant_id, percent] += 1

    def start_scored(self, told: Announced) -> None:
        if told.started_at is None:
            return
        on_time = "p50" if told.started_at <= told.p50_at else "p90"
        self.estimated[on_time if told.started_at <= told.p90_at else "later"] += 1
        self.estimate_errors.add(abs(told.started_at - told.p50_at) / SECOND)

    def clock_stepped(self, by: int) -> None:
        self.clock_steps += 1

    def measured(self, node_id: NodeId, snapshot: Snapshot) -> None:
        self.snapshots[node_id] = snapshot

    def _moved(self, event: JobMoved) -> None:
        progress = event.progress
        self.entered[progress.state] += 1
        if progress.fault is not None and event.move in _FAILED:
            self.failures[progress.fault] += 1
        if (promise := broken_promise(self.reads, event)) is not None:
            self.broken[promise] += 1
        if event.move is Move.START:
            if progress.attempt == 1:  # a retry waited for its back-off, not for room
                self._started(event)
        elif progress.state in TERMINAL:
            if progress.started_at is not None and progress.ended_at is not None:
                ran_ms = max(0, progress.ended_at - progress.started_at)
                self.runs[progress.state].add(ran_ms / SECOND)
        elif event.move is Move.PREEMPT:
            self.preemptions += 1

    def _started(self, event: JobMoved) -> None:
        live = self.reads.job(event.job_id)
        if live is None:
            return
        waited = max(0, event.at - live.job.submitted_at) / SECOND
        self.waits.add(waited)
        tenant_id = live.job.tenant_id
        tally = self.waits_of.get(tenant_id)
        if tally is None:
            tally = self.waits_of[tenant_id] = HistogramTally(())
        tally.add(waited)
