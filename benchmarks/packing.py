"""How much of the openb cluster each published list of requests fills, beside what others reached.

    python -m benchmarks.packing DIR

The experiment of the FGD paper: 6,212 GPUs, requests in random order until they want 130 % of them,
one at a time; what fits nowhere is dropped, nothing ends. Figures of others are those published
with it, means of ten orders. Ours are means of three, each shuffled from the seed by us.
"""

import sys
from pathlib import Path

from tgpu.core.model.units import GPU
from tgpu.simulate.clusters import read_cluster
from tgpu.simulate.packing import Packed, mix_of, order, pack, read_pods

NODES = "openb_nodes_gpu.csv.gz"
SEEDS = (42, 43, 44)
DEMAND_PERCENT = 130
# Published shares of the GPUs in use, in percent: random, best fit, FGD.
PUBLISHED = {
    "default": (87.47, 93.08, 95.39),
    "cpu050": (91.24, 93.79, 95.21),
    "cpu100": (89.11, 93.44, 95.35),
    "cpu200": (83.77, 92.40, 95.04),
    "gpushare40": (86.00, 91.69, 94.15),
    "gpushare80": (81.22, 87.01, 89.30),
    "gpushare100": (79.44, 85.01, 86.90),
    "gpuspec10": (87.43, 93.30, 94.95),
    "gpuspec20": (87.24, 93.30, 94.84),
    "gpuspec25": (86.94, 93.23, 94.74),
    "multigpu20": (88.69, 93.93, 95.65),
    "multigpu30": (89.27, 94.72, 96.46),
    "multigpu40": (90.09, 95.24, 96.99),
}
HEAD = f"""## Packing parts of GPUs (openb)

1,213 nodes, 6,212 GPUs. Requests come one at a time in random order until they want
{DEMAND_PERCENT} % of the GPUs; what fits nowhere is dropped, nothing ends. Per cent of the GPUs in
use at the end, mean of the seeds {SEEDS[0]} to {SEEDS[-1]}. **Ours** is `scheduler.placement:
fragmentation` that has learnt the list, as FGD has; `tgpu sim pack` runs it.

| requests | random | best fit | FGD | **ours** | least and most | placements a second |
|---|---:|---:|---:|---:|---:|---:|
"""


def measure(name: str, directory: Path) -> list[Packed]:
    cluster = read_cluster(str(directory / NODES))
    nodes = [node for group in cluster.partitions.values() for node in group]
    pods = read_pods(directory / f"openb_pods_{name}.csv.gz")
    mix, most = mix_of(pods), cluster.gpus() * GPU * DEMAND_PERCENT // 100
    return [pack(nodes, order(pods, seed, most), mix, seed=seed) for seed in SEEDS]


def packings(directory: Path) -> list[str]:
    """The table for the results, and each list's figure on the way."""
    lines = HEAD.splitlines()
    for name, (random, best_fit, fgd) in PUBLISHED.items():
        runs = measure(name, directory)
        shares = [run.allocated_percent for run in runs]
        mean = sum(shares) / len(shares)
        speed = sum(run.requests for run in runs) / sum(run.seconds for run in runs)
        print(f"openb {name}: {mean:.2f} % ({fgd:.2f} by FGD), {speed:,.0f} placements a second")
        lines.append(
            f"| {name} | {random:.2f} | {best_fit:.2f} | {fgd:.2f} | **{mean:.2f}** "
            f"| {min(shares):.2f} to {max(shares):.2f} | {speed:,.0f} |"
        )
    return [*lines, ""]


if __name__ == "__main__":
    packings(Path(sys.argv[1]))
