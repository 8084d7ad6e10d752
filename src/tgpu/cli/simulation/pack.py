"""`tgpu sim pack`: how much of a cluster a list of requests fills. It needs no service."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tgpu.cli.failures import bad_input
from tgpu.cli.options import Json, examples

if TYPE_CHECKING:
    from tgpu.simulate.packing import Packed

EPILOG: Final = examples(
    "tgpu sim pack --pods pods.csv.gz --nodes nodes.csv.gz",
    "tgpu sim pack --pods a.csv --pods b.csv --nodes 100x8xA100 --seeds 42-51",
    "tgpu sim pack --pods pods.csv --nodes nodes.csv --json | jq '.lists[].allocated_percent'",
)
_SEEDS: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_MOST_SEEDS: Final = 1_000


def pack(
    *,
    pods: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="Requests: a CSV with name, cpu_milli, memory_mib, num_gpu, gpu_milli and "
            "gpu_spec (models as A|B; empty: any), also .gz. Repeatable.",
        ),
    ],
    nodes: Annotated[
        str,
        typer.Option(metavar="FILE", help="Nodes: CSV, JSON, YAML, or written as 100x8xA100."),
    ],
    seeds: Annotated[
        str, typer.Option(metavar="N-M", help="Seeds; one random order of the requests for each.")
    ] = "42-44",
    demand: Annotated[
        int,
        typer.Option(
            metavar="PERCENT",
            min=1,
            max=1000,
            help="Stop when requests exceed this share of the GPUs.",
        ),
    ] = 130,
    as_json: Json = False,
) -> None:
    """Place requests one by one until the demand exceeds the cluster.

    The service's own code places them, as with scheduler.placement fragmentation after it has
    learnt typical requests. Requests that fit nowhere are dropped, and nothing ends. Shows how much
    of the GPUs is in use at the end.
    """
    from tgpu.cli.output import show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.packing import packing_grid
    from tgpu.cli.simulation.command import progress, sentences
    from tgpu.core.model.units import GPU
    from tgpu.simulate.clusters import read_cluster
    from tgpu.simulate.packing import mix_of, order, read_pods
    from tgpu.simulate.packing import pack as pack_all

    chosen = _seeds(seeds)
    for path in pods:
        if not path.is_file():
            raise bad_input(f"--pods: there is no file {path}")
    with sentences():
        cluster = read_cluster(nodes)
        machines = [node for group in cluster.partitions.values() for node in group]
        lists = [(path.name, read_pods(path)) for path in pods]
    if not cluster.gpus():
        raise bad_input(f"--nodes: there are no GPUs in {nodes}")
    found: list[dict[str, Any]] = []
    for name, listed in lists:
        runs, mix = [], mix_of(listed)
        for seed in chosen:
            requests = order(listed, seed, cluster.gpus() * GPU * demand // 100)
            with progress(len(requests), f"{name}, seed {seed}") as tell:
                runs.append(pack_all(machines, requests, mix, seed=seed, tell=tell))
        found.append(_told(name, runs))
    if as_json:
        about = {"nodes": cluster.nodes(), "gpus": cluster.gpus(), "demand_percent": demand}
        show_json({**about, "placement": "fragmentation", "lists": found})
        return
    show_lines(lay_out(packing_grid(found), width()))


def _seeds(text: str) -> range:
    match = _SEEDS.fullmatch(text.strip())
    if match is None:
        raise bad_input(f"--seeds: {text} is not a list of seeds; write 42 or 42-44")
    first, last = int(match[1]), int(match[2] or match[1])
    if not first <= last < first + _MOST_SEEDS:
        raise bad_input(f"--seeds: {text}; write low to high, and at most {_MOST_SEEDS:,} of them")
    return range(first, last + 1)


def _told(name: str, runs: "list[Packed]") -> dict[str, Any]:
    requests, seconds = sum(run.requests for run in runs), sum(run.seconds for run in runs)
    return {
        "pods": name,
        "allocated_percent": round(sum(run.allocated_percent for run in runs) / len(runs), 3),
        "placements_per_second": round(requests / seconds) if seconds else 0,
        "runs": [
            {
                "seed": run.seed,
                "requests": run.requests,
                "dropped": run.dropped,
                "allocated_percent": round(run.allocated_percent, 3),
                "seconds": round(run.seconds, 3),
            }
            for run in runs
        ],
    }
