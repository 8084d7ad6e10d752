"""Nodes as a table."""

from collections import Counter
from typing import Final

from tgpu.cli.render.grid import Cell, Column, Grid, clean
from tgpu.cli.render.words import sentence_text
from tgpu.text.instants import local_text
from tgpu.text.sizes import mebibytes_text
from tgpu.wire.nodes_v1 import NodeList, NodeModel

_COLUMNS: Final = (
    Column("NODE", least=8),
    Column("STATE"),
    Column("GPUS", least=8),
    Column("USE", leave_out=2, right=True),
    Column("TEMP", leave_out=2, right=True),
    Column("CPUS", leave_out=3, right=True),
    Column("MEMORY", leave_out=3, right=True),
    Column("SEEN", leave_out=4),
    Column("LABELS", leave_out=2),
    Column("NOTE", least=16, leave_out=1),
)
_STYLES: Final = {"online": "green", "offline": "red"}


def node_grid(found: NodeList) -> Grid:
    return Grid(_COLUMNS, tuple(_row(node) for node in found.nodes))


def _row(node: NodeModel) -> tuple[Cell, ...]:
    return (
        Cell(clean(node.name)),
        Cell(node.state, _STYLES.get(node.state, "")),
        Cell(_gpus(node)),
        Cell(_use(node)),
        Cell(_hottest(node)),
        Cell(str(node.cpu_cores)),
        Cell(mebibytes_text(node.memory_mb)),
        Cell(_seen(node)),
        Cell(clean(" ".join(f"{name}={value}" for name, value in node.labels.items()))),
        Cell(clean(_note(node))),
    )


def _gpus(node: NodeModel) -> str:
    word = "simulated " if node.simulated else ""
    counts = Counter(gpu.gpu_type for gpu in node.gpus)
    return ", ".join(f"{count} {word}{clean(kind)}" for kind, count in counts.items()) or "none"


def _use(node: NodeModel) -> str:
    known = [gpu.utilisation_percent for gpu in node.gpus if gpu.utilisation_percent is not None]
    return f"{sum(known) // len(known)}%" if known else ""


def _hottest(node: NodeModel) -> str:
    known = [gpu.temperature_c for gpu in node.gpus if gpu.temperature_c is not None]
    return f"{max(known)}°C" if known else ""


def _seen(node: NodeModel) -> str:
    if node.source == "local":
        return "here"
    return local_text(node.last_seen_at or "")


def _note(node: NodeModel) -> str:
    problems = [f"GPU {gpu.index}: {gpu.problem}" for gpu in node.gpus if gpu.problem]
    problems = [node.problem, *problems] if node.problem else problems
    found = sentence_text("; ".join(problems))
    if node.no_jobs is None and (node.source != "agent" or node.engine):
        return found
    return found or f"reports only: {sentence_text(node.no_jobs or 'no job is placed there')}"
