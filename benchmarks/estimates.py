"""How often jobs of the public traces start by what they were told when they were submitted.

    python -m benchmarks.estimates DIR

The trace is simulated; every so many jobs that cannot start at once, the one that just came is told
when it will, by the code of the service: the queue played forward with run times predicted from the
jobs that are over by then, its window as wide as those told before turned out to need.
"""

import argparse
import sys
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from time import perf_counter
from typing import ClassVar

from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.plan import BackfillReservation, Plan
from tgpu.core.model.rules import BackfillMode, PlacementRule, Rules
from tgpu.core.policies import OrderOptions, order_policy
from tgpu.core.policies.slots import Order, OrderPolicy
from tgpu.core.prediction.runtimes import Forecast, History
from tgpu.core.projection.estimate import Accuracy, Announced, StartSpread, accuracy
from tgpu.core.projection.queue_projection import Projection, RunLength
from tgpu.core.projection.snapshot import picture, state_of
from tgpu.core.scheduling_config import CycleContext, SchedulingConfig
from tgpu.core.state.cluster_state import State
from tgpu.simulate.clusters import read_cluster
from tgpu.simulate.jobs import Jobs, SimulatedLimits
from tgpu.simulate.run import Setting, simulate
from tgpu.simulate.traces import read_trace

# As in the service: jobs that are played forward, and steps of that.
MOST_JOBS = 2_000
MOST_STEPS = 2 * MOST_JOBS
UNKNOWN_MS = 3_600_000


@dataclass(frozen=True)
class Case:
    name: str
    trace: str
    cluster: str  # a file of the directory, or words
    policy: str
    backfill: BackfillMode
    every: int  # one of so many that wait is told; the simulator would take days for all
    nodes: str | None = None

    @property
    def setting(self) -> str:
        return f"{self.policy}, {self.backfill}"


VENUS = ("Venus, one pool of 100 nodes", "helios_venus_2020_09_jobs.csv.gz", "100x8")
TWO = ("Venus, two VCs", "helios_venus_2vc_2020_09_jobs.csv.gz", "vcvGl=20x8,vcvlY=2x8")
PHILLY = ("Philly, 11 VCs, 352 nodes", "philly_2017_jobs.csv.gz", "philly_2017_vcs.csv")
CASES = (
    Case(*VENUS, "priority", BackfillMode.EASY, 3),
    Case(*VENUS, "shortest", BackfillMode.GREEDY, 3),
    Case(*VENUS, "fifo", BackfillMode.STRICT, 20),
    Case(*TWO, "priority", BackfillMode.EASY, 1),
    Case(*TWO, "shortest", BackfillMode.GREEDY, 1),
    Case(*TWO, "fifo", BackfillMode.STRICT, 2),
    Case(*PHILLY, "priority", BackfillMode.EASY, 8),
    Case(*PHILLY, "shortest", BackfillMode.GREEDY, 8),
    Case(*PHILLY, "fifo", BackfillMode.STRICT, 40),
)


@dataclass
class Partition:
    """What is learned in one: each is a cluster of its own."""

    state: State
    forecast: Forecast = field(default_factory=lambda: Forecast(History()))
    spread: StartSpread = field(default_factory=StartSpread)
    ends: list[tuple[int, JobId, int]] = field(default_factory=list)
    told: dict[JobId, Announced] = field(default_factory=dict)
    seen: set[JobId] = field(default_factory=set)
    jobs: dict[JobId, Job] = field(default_factory=dict)
    promises: tuple[BackfillReservation, ...] = ()


class Watching:
    """The order of a policy, which also shows the state to whoever looks over its shoulder."""

    name: ClassVar[str] = "watching"

    def __init__(self, case: Case, run_ms: dict[JobId, int]) -> None:
        options = OrderOptions(predicted=self._predicted)
        self._inner: OrderPolicy = order_policy(case.policy, 60, options)
        self._rules = Rules(case.backfill)
        self._every = case.every
        self._run_ms = run_ms
        self._here: Partition | None = None
        self.at_once = 0
        self.waited = 0
        self.over: list[Announced] = []

    def setting(self) -> Setting:
        return Setting(SchedulingConfig(self, self._rules, PlacementRule.CONSOLIDATED))

    def at(self, state: State, now: int) -> Order:
        if self._here is None or self._here.state is not state:
            self._here = Partition(state)
        self._learn(self._here, now)
        return self._inner.at(state, now)

    def _predicted(self, job_class: JobClass, now: int) -> int | None:
        return None if self._here is None else self._here.forecast(job_class, now)

    def _learn(self, here: Partition, now: int) -> None:
        while here.ends and here.ends[0][0] <= now:
            at, job_id, ran = heappop(here.ends)
            here.forecast.learn(here.jobs.pop(job_id), ran, at)

    def show(self, now: int, plan: Plan) -> None:
        """The plan of a cycle, before it is carried out."""
        here = self._here
        if here is None:
            return
        starting = {start.job_id for start in plan.starts}
        for queue in list(here.state.waiting.classes()):
            for submitted_at, job_id in reversed(queue.keys):  # the newest are the last
                if submitted_at < now:
                    break
                if job_id not in here.seen:
                    self._arrived(here, job_id, now, job_id in starting)
        for start in plan.starts:
            self._started(here, start.job_id, now)
        here.promises = plan.reservations

    def _arrived(self, here: Partition, job_id: JobId, now: int, starts: bool) -> None:
        here.seen.add(job_id)
        if starts:
            self.at_once += 1
            return
        self.waited += 1
        if self.waited % self._every:
            return
        entry = here.state.entry(job_id)
        assert entry is not None
        at = self._foreseen(here, job_id, now)
        p50, p90 = here.spread.window(now, at)
        job = entry.job
        here.told[job_id] = Announced(job_id, job.tenant_id, job.queue, now, at, p50, p90)

    def _foreseen(self, here: Partition, job_id: JobId, now: int) -> int:
        def runs(job: Job, elapsed_ms: int) -> RunLength:
            known = here.forecast.of_job(job, elapsed_ms, now)
            guessed = max(UNKNOWN_MS, 2 * elapsed_ms)
            return RunLength(guessed if known is None else max(elapsed_ms, known.p50_ms))

        state = state_of(picture(here.state, now, self._inner, {}, MOST_JOBS))
        context = CycleContext(SchedulingConfig(self._inner, self._rules), here.promises)
        projection = Projection(state, now, context, runs)
        while (
            not projection.is_over
            and projection.steps < MOST_STEPS
            and job_id not in projection.starts
        ):
            projection.step()
        return max(now + 1, projection.starts.get(job_id, projection.reached))

    def _started(self, here: Partition, job_id: JobId, now: int) -> None:
        entry = here.state.entry(job_id)
        assert entry is not None
        here.jobs[job_id] = entry.job
        ran = self._run_ms[job_id]
        heappush(here.ends, (now + ran, job_id, ran))
        told = here.told.pop(job_id, None)
        if told is not None:
            over = told.started(now)
            here.spread.learn(over)
            self.over.append(over)


@dataclass(frozen=True)
class Measured:
    case: Case
    at_once: int
    waited: int
    found: Accuracy
    mean_window_ms: int
    seconds: float

    @property
    def by_p90(self) -> float:
        """Of all jobs: those that started at once were told that."""
        share = self.found.before_p90 / max(1, self.found.jobs)
        return (self.at_once + self.waited * share) / max(1, self.at_once + self.waited)


def measure(case: Case, directory: Path) -> Measured:
    path = directory / case.cluster
    cluster = read_cluster(str(path) if path.exists() else case.cluster, case.nodes)
    jobs = Jobs(read_trace(directory / case.trace), cluster, SimulatedLimits.NONE)
    watching = Watching(case, {one.job.job_id: one.run_ms for one in jobs.arrivals})
    began = perf_counter()
    simulate(jobs.arrivals, cluster, watching.setting(), show=watching.show)
    windows = [one.p90_at - one.at for one in watching.over]
    return Measured(
        case,
        watching.at_once,
        watching.waited,
        accuracy(watching.over),
        sum(windows) // max(1, len(windows)),
        perf_counter() - began,
    )


HEAD = """## When will it start

Every job is told when it will start as it is submitted: half should start by the p50, nine of ten
by the p90. Run times are predicted from the jobs that are over by then. Those that start at once
are told so; of those that have to wait a sample was told, every so many of them, and the shares of
those that wait are of that sample. Measured by `python -m benchmarks.estimates DIR`.

| trace | setting | jobs | had to wait | told | all by p90 | waiting: by p50 | waiting: by p90 \
| median wait | median error | median p90 |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"""


def lines_of(measured: list[Measured]) -> list[str]:
    lines = HEAD.splitlines()
    for one in measured:
        found, told = one.found, max(1, one.found.jobs)
        lines.append(
            f"| {one.case.name} | {one.case.setting} | {one.at_once + one.waited:,} "
            f"| {one.waited:,} | {found.jobs:,} | **{one.by_p90:.1%}** "
            f"| {found.before_p50 / told:.1%} | **{found.before_p90 / told:.1%}** "
            f"| {_minutes(found.median_wait_ms)} | {_minutes(found.median_error_ms)} "
            f"| {_minutes(found.median_window_ms)} |"
        )
    return [*lines, ""]


def _minutes(ms: int) -> str:
    return f"{ms / 60_000:,.0f} min"


def section(directory: Path) -> list[str]:
    """For docs/results.md."""
    measured = []
    for case in CASES:
        one = measure(case, directory)
        measured.append(one)
        found, told = one.found, max(1, one.found.jobs)
        print(
            f"{case.name}, {case.setting}: {one.by_p90:.1%} of all by p90; of {told} that waited "
            f"{found.before_p50 / told:.1%} by p50, {found.before_p90 / told:.1%} by p90 "
            f"in {one.seconds:.0f} s",
            flush=True,
        )
    return lines_of(measured)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", type=Path, help="directory of the public traces")
    options = parser.parse_args()
    print("\n".join(section(options.traces)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
