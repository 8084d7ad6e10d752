"""Figures of simulations as a table, one column per run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tgpu.cli.render.grid import Cell, Column, Grid
from tgpu.text.plurals import plural

_SPREADS: Final = (
    ("submission to end", "jct_s"),
    ("wait", "wait_s"),
    ("wait, more than 8 GPUs", "large_wait_s"),
)
_TOLD: Final = {f"scheduler.{name}" for name in ("policy", "backfill", "placement")}
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
    config = run.get("config")
    whose = f"; settings of {config}" if config else ""
    return (
        f"{run['trace']} on {run['cluster']}: {machines}; policy "
        f"{run['policy']}, backfill {run['backfill']}, placement {run['placement']}{whose}"
    )


def _other_settings(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those that are not the same in all, beside what has a row of its own."""
    all_of = [one["run"].get("settings", {}) for one in documents]
    names = {name for values in all_of for name in values} - _TOLD
    return sorted(name for name in names if len({str(one.get(name)) for one in all_of}) > 1)


def run_grid(documents: Sequence[Mapping[str, Any]], names: Sequence[str] = ("",)) -> Grid:
    """Figures down, runs across; times in seconds."""
    columns = [Column(""), *(Column(name, right=True) for name in names)]
    return Grid(tuple(columns), tuple(_rows(documents, is_several=len(names) > 1)))


def _rows(documents: Sequence[Mapping[str, Any]], *, is_several: bool) -> list[tuple[Cell, ...]]:
    def row(name: str, value: Callable[[Mapping[str, Any]], str]) -> tuple[Cell, ...]:
        return (Cell(name), *(Cell(value(one)) for one in documents))

    found = []
    if is_several:
        for key in ("trace", "cluster", "policy", "backfill", "placement"):
            found.append((Cell(key), *(Cell(str(one["run"][key])) for one in documents)))
        for key in _other_settings(documents):
            told = (one["run"].get("settings", {}).get(key, "") for one in documents)
            found.append((Cell(key), *(Cell(str(value)) for value in told)))
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
