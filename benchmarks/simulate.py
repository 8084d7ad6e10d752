"""How many jobs a second the simulator gets through, and how little that depends on how many.

    python -m benchmarks.simulate [--quick] [--traces DIR]

Synthetic traces on clusters that grow with them, each without partitions and so in one process;
with a directory of the public traces, Philly under FIFO as well, with its partitions side by side.
Only the simulation is timed: the jobs are read before. Exit code 1 where time grows faster than the
number of jobs times its logarithm.
"""

import argparse
import gc
import sys
from collections.abc import Sequence
from math import log
from os import times
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from tgpu.core.model.rules import BackfillMode, PlacementRule, Rules
from tgpu.core.policies import order_policy
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.simulate.clusters import read_cluster
from tgpu.simulate.jobs import Jobs
from tgpu.simulate.run import Setting, simulate
from tgpu.simulate.side_by_side import processors
from tgpu.simulate.synthetic import synthetic
from tgpu.simulate.traces import read_trace
from tgpu.simulate.world import Arrival, Cluster

# Jobs, and the nodes of 8 GPUs that they run on. The last is the size that is promised to complete.
QUICK = ((10_000, 100), (100_000, 1_000))
FULL = (*QUICK, (1_000_000, 10_000))
REPETITIONS = 3
# Promised: no worse than n log n. Caches that grow with the cluster cost a little beside it.
MAX_GROWTH = 1.6

STRICT = Setting(
    SchedulingConfig(
        order_policy("fifo"), Rules(backfill=BackfillMode.STRICT), PlacementRule.CONSOLIDATED
    )
)


class Taken(NamedTuple):
    wall: float
    busy: float  # of all our processors together: less noisy where others work on the machine

    def speed(self, jobs: int) -> str:
        rates = f"{jobs / self.wall:9,.0f} jobs/s  {jobs / self.busy:9,.0f} a second of processor"
        return f"{self.wall:8.2f} s  {rates}"


def seconds(arrivals: list[Arrival], cluster: Cluster, processes: int) -> Taken:
    gc.collect()
    began, busy = perf_counter(), sum(times()[:4])
    result = simulate(arrivals, cluster, STRICT, processes=processes)
    taken = Taken(perf_counter() - began, sum(times()[:4]) - busy)
    if result.unfinished:
        raise SystemExit(f"{result.unfinished} jobs did not end")
    return taken


def measure(sizes: tuple[tuple[int, int], ...]) -> bool:
    print("fifo, nobody passes, synthetic jobs at 85 % load, one process")
    costs = []
    for jobs, nodes in sizes:
        cluster = read_cluster(f"{nodes}x8")
        arrivals = Jobs(synthetic(jobs, cluster), cluster).arrivals
        repetitions = REPETITIONS if jobs <= QUICK[-1][0] else 1
        taken = sorted(seconds(arrivals, cluster, 1) for _ in range(repetitions))[repetitions // 2]
        costs.append(taken.busy / (jobs * log(jobs)))
        print(f"  {jobs:>9,} jobs on {nodes:>6,} nodes  {taken.speed(jobs)}", flush=True)
    growth = max(later / costs[0] for later in costs)
    print(f"  time over n log n grows by {growth:.2f} (at most {MAX_GROWTH})")
    return growth <= MAX_GROWTH


def measure_philly(directory: Path) -> None:
    cluster = read_cluster(str(directory / "philly_2017_vcs.csv"))
    arrivals = Jobs(read_trace(directory / "philly_2017_jobs.csv.gz"), cluster).arrivals
    for processes in dict.fromkeys((1, processors())):
        taken = sorted(seconds(arrivals, cluster, processes) for _ in range(REPETITIONS))
        speed = taken[REPETITIONS // 2].speed(len(arrivals))
        print(f"  Philly 2017, {len(arrivals):,} jobs, {processes} processes  {speed}", flush=True)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="without the million jobs")
    parser.add_argument("--traces", type=Path, help="directory of the public traces")
    options = parser.parse_args(argv)
    holds = measure(QUICK if options.quick else FULL)
    if options.traces is not None:
        measure_philly(options.traces)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
