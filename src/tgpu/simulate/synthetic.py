"""Synthetic traces, for benchmarks and first tries: the same seed makes the same jobs."""

from random import Random
from typing import Final

from tgpu.core.model.units import GPU
from tgpu.simulate.rows import TraceRow, TraceRows
from tgpu.simulate.world import Cluster

PREFIX: Final = "synthetic:"  # synthetic:10000 stands for a file with so many jobs

# GPUs and how often they are asked for, about as in the published traces.
_SIZES: Final = ((1, 70), (2, 8), (4, 8), (8, 12), (16, 2))
_TENANTS: Final = 8
_LOAD: Final = 0.85  # of the GPUs, on average


def synthetic(jobs: int, cluster: Cluster, seed: int = 0) -> TraceRows:
    """Jobs that keep the cluster busy: many short ones, a few long ones, at random instants."""
    rng = Random(seed)
    sizes, weights = zip(*((gpus, n) for gpus, n in _SIZES if gpus <= cluster.gpus()), strict=True)
    partitions = sorted(cluster.partitions)
    drawn: list[tuple[int, int]] = []  # GPUs, milliseconds
    for _ in range(jobs):
        gpus = rng.choices(sizes, weights)[0]
        drawn.append((gpus, max(1_000, min(round(rng.lognormvariate(6.5, 2.0)), 604_800) * 1000)))
    work = sum(gpus * run_ms for gpus, run_ms in drawn)
    mean_gap = work / (max(1, cluster.gpus()) * _LOAD) / max(1, jobs)
    rows, at = TraceRows(f"{PREFIX}{jobs}", "synthetic"), 0.0
    for number, (gpus, run_ms) in enumerate(drawn, 1):
        at += rng.expovariate(1 / mean_gap)
        tenant = f"team-{rng.randrange(_TENANTS)}"
        partition = partitions[rng.randrange(len(partitions))]
        rows.jobs.append(
            TraceRow(number, str(number), int(at), run_ms, gpus * GPU, partition, tenant=tenant)
        )
    return rows
