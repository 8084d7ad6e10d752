"""The figures of simulations as a table: one column a run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tgpu.cli.render.grid import Cell, Column, Grid
from tgpu.wire.plurals import plural

_SPREADS: Final = (
    ("submission to end", "jct_s"),
    ("wait", "wait_s"),
    ("wait, more than 8 GPUs", "large_wait_s"),
)
_PARTS: Final = (
    ("mean", "mean"),
    ("median", "median"),
    ("p99", "p99"),
    ("p99.9", "p999"),
    ("longest", "max"),
)


def headline(document: Mapping[str, Any]) -> str:
    run = document["run"]
    nodes, gpus = f"{document['nodes']:,}", f"{document['gpus']:,}"
    machines = f"{plural(nodes, 'node')}, {plural(gpus, 'GPU')}"
    return (
        f"{run['trace']} on {run['cluster']}: {machines}; policy "
        f"{run['policy']}, passing {run['passing']}, placement {run['placement']}"
    )


def run_grid(documents: Sequence[Mapping[str, Any]], names: Sequence[str] = ("",)) -> Grid:
    """Figures down, runs across; times in seconds."""
    columns = [Column(""), *(Column(name, right=True) for name in names)]
    return Grid(tuple(columns), tuple(_rows(documents, is_several=len(names) > 1)))


def _rows(documents: Sequence[Mapping[str, Any]], *, is_several: bool) -> list[tuple[Cell, ...]]:
    def row(name: str, value: Callable[[Mapping[str, Any]], str]) -> tuple[Cell, ...]:
        return (Cell(name), *(Cell(value(one)) for one in documents))

    found = []
    if is_several:
        for key in ("trace", "cluster", "policy", "passing", "placement"):
            found.append((Cell(key), *(Cell(str(one["run"][key])) for one in documents)))
    found.append(row("jobs", lambda one: f"{one['summary']['jobs']:,}"))
    if any(one["summary"]["unfinished"] for one in documents):
        found.append(row("never start", lambda one: f"{one['summary']['unfinished']:,}"))
    for title, key in _SPREADS:
        for word, part in _PARTS:
            texts = (f"{one['summary'][key][part]:,.1f}" for one in documents)
            found.append((Cell(f"{title}, {word} s"), *map(Cell, texts)))
    found += [
        row("jobs of more than 8 GPUs", lambda one: f"{one['summary']['large_jobs']:,}"),
        row("first arrival to last end, s", lambda one: f"{one['summary']['makespan_s']:,.0f}"),
        row("GPUs in use, %", lambda one: f"{one['summary']['use_percent']:.2f}"),
        row("mean bounded slowdown", lambda one: f"{one['summary']['mean_slowdown']:,.2f}"),
        row("fairness of tenants", lambda one: f"{one['summary']['fairness']:.3f}"),
        row("preemptions", lambda one: f"{one['summary']['preemptions']:,}"),
        row("simulated jobs a second", _speed),
    ]
    return found


def _speed(document: Mapping[str, Any]) -> str:
    seconds = document["run"]["seconds"]
    return f"{document['summary']['jobs'] / seconds:,.0f}" if seconds else "-"
