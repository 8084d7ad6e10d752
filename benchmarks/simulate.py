"""How many jobs a second the simulator gets through, and how little that depends on how many.

    python -m benchmarks.simulate [--full] [--traces DIR]

Synthetic traces on clusters that grow with them; with a directory of the public traces, Philly
under FIFO as well. Exit code 1 where time grows faster than the number of jobs times its logarithm.
"""

import argparse
import gc
import sys
from collections.abc import Sequence
from math import log
from pathlib import Path
from statistics import median
from time import process_time

from gpu_scheduler.core.policies import order_policy
from gpu_scheduler.core.rules import Passing, PlacementRule, Rules
from gpu_scheduler.simulate.clusters import read_cluster
from gpu_scheduler.simulate.jobs import Jobs
from gpu_scheduler.simulate.run import Setting, simulate
from gpu_scheduler.simulate.synthetic import synthetic
from gpu_scheduler.simulate.traces import read_trace
from gpu_scheduler.simulate.world import Arrival, Cluster

# Jobs, and the nodes of 8 GPUs that they run on. The last is the size that is promised to complete.
SIZES = ((10_000, 100), (100_000, 1_000))
FULL = (*SIZES, (1_000_000, 10_000))
REPETITIONS = 3
# Promised: no worse than n log n. Caches that grow with the cluster cost a little beside it.
MAX_GROWTH = 1.6

STRICT = Setting(order_policy("fifo"), Rules(passing=Passing.STRICT), PlacementRule.CONSOLIDATED)


def seconds(arrivals: list[Arrival], cluster: Cluster) -> float:
    gc.collect()
    began = process_time()
    result = simulate(arrivals, cluster, STRICT)
    taken = process_time() - began
    if result.unfinished:
        raise SystemExit(f"{result.unfinished} jobs did not end")
    return taken


def measure(sizes: tuple[tuple[int, int], ...]) -> bool:
    print("fifo, nobody passes, synthetic jobs at 85 % load")
    worlds = []
    for jobs, nodes in sizes:
        cluster = read_cluster(f"{nodes}x8")
        worlds.append((jobs, nodes, Jobs(synthetic(jobs, cluster), cluster).arrivals, cluster))
    costs = []
    for jobs, nodes, arrivals, cluster in worlds:
        repetitions = REPETITIONS if jobs <= SIZES[-1][0] else 1
        taken = median(seconds(arrivals, cluster) for _ in range(repetitions))
        costs.append(taken / (jobs * log(jobs)))
        speed = f"{taken:8.2f} s  {jobs / taken:9,.0f} jobs/s"
        print(f"  {jobs:>9,} jobs on {nodes:>6,} nodes  {speed}")
    growth = max(later / costs[0] for later in costs)
    print(f"  time over n log n grows by {growth:.2f} (at most {MAX_GROWTH})")
    return growth <= MAX_GROWTH


def measure_philly(directory: Path) -> None:
    cluster = read_cluster(str(directory / "philly_2017_vcs.csv"))
    arrivals = Jobs(read_trace(directory / "philly_2017_jobs.csv.gz"), cluster).arrivals
    taken = median(seconds(arrivals, cluster) for _ in range(REPETITIONS))
    count = len(arrivals)
    print(f"  Philly 2017, {count:,} jobs  {taken:8.2f} s  {count / taken:,.0f} jobs/s")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="a million jobs too")
    parser.add_argument("--quick", action="store_true", help="the usual sizes")
    parser.add_argument("--traces", type=Path, help="directory of the public traces")
    options = parser.parse_args(argv)
    holds = measure(FULL if options.full else SIZES)
    if options.traces is not None:
        measure_philly(options.traces)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
