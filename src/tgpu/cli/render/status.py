"""The detailed status, metrics and health."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tgpu.cli.render.gpus import gpu_grid, process_lines, status_details
from tgpu.cli.render.grid import Cell, Column, Grid, Line, clean, facts, lay_out
from tgpu.cli.render.job_table import in_order, job_grid
from tgpu.cli.render.words import number_text, plural, sentence_text
from tgpu.text.durations import duration_text, tenths_text
from tgpu.wire.metrics_v1 import GpuUseModel, MetricsAnswer
from tgpu.wire.v1 import ClusterStatus, GpuList, Health, JobModel

_BLANK: Final[Line] = (Cell(""),)
_USE_COLUMNS: Final = (
    Column("GPU", right=True),
    Column("MEAN USE", right=True),
    Column("PEAK USE", right=True),
    Column("NOTE", least=10, leave_out=1),
)


@dataclass(frozen=True, slots=True)
class StatusReading:
    """What the service said at about one moment."""

    status: ClusterStatus
    metrics: MetricsAnswer
    gpus: GpuList
    active: Sequence[JobModel]  # the newest rows of what runs
    health: Health
    is_all: bool = True  # nothing else runs


def detailed_lines(look: StatusReading, now_ms: int, width: int | None) -> list[Line]:
    return [
        *_overview(look),
        *_section("GPUs", lay_out(gpu_grid(look.gpus, now_ms, allocated=True), width)),
        *_section(f"Running jobs: {look.status.running_jobs:,}", _active(look, now_ms, width)),
        *_section("Processes on GPUs", process_lines(look.gpus)),
        *_section("Settings", status_details(look.status)),
    ]


def metrics_lines(found: MetricsAnswer, width: int | None = None) -> list[Line]:
    runs, grid = found.runs, _use_grid(found)
    told = "none has ended yet"
    if runs.mean_seconds is not None and runs.median_seconds is not None:
        mean, median = tenths_text(runs.mean_seconds), tenths_text(runs.median_seconds)
        told = f"{mean} on average, {median} median, of the newest {plural(runs.count, 'job')}"
    return [
        *facts([("jobs", f"{found.total_jobs:,} in all"), ("run time", told)]),
        *_section("GPU use since the scheduler started", lay_out(grid, width)),
    ]


def health_lines(found: Health) -> list[Line]:
    """As a fact, with what is wrong below it."""
    return _health_facts(found, len("health"))


def _overview(look: StatusReading) -> list[Line]:
    status, waiting = look.status, look.metrics.waiting
    kind = "simulated" if status.simulated else clean(status.provider)
    gpus = f"{number_text(status.used_gpus)} of {status.total_gpus} in use"
    by_priority = f"{waiting.high:,} of high, {waiting.normal:,} of normal, {waiting.low:,} of low"
    pairs = [
        ("scheduler", f"running, version {status.version}"),
        ("uptime", duration_text(status.uptime_seconds)),
        ("processed", plural(look.metrics.ended_jobs, "job")),
        ("queue", f"{plural(status.pending_jobs, 'job')}: {by_priority} priority"),
        ("GPUs", f"{gpus}, {number_text(status.available_gpus)} free ({kind})"),
        ("nodes", f"{status.online_nodes} of {status.total_nodes} online"),
    ]
    return [*facts(pairs), *_health_facts(look.health, max(len(name) for name, _ in pairs))]


def _health_facts(found: Health, wide: int) -> list[Line]:
    style = "green" if found.status == "healthy" else "red"
    first: Line = (Cell(f"{'health':<{wide}}  ", "bold"), Cell(clean(found.status), style))
    return [first, *((Cell(" " * (wide + 2)), Cell(sentence_text(p))) for p in found.problems)]


def _section(title: str, lines: list[Line]) -> list[Line]:
    return [_BLANK, (Cell(title, "bold"),), *lines] if lines else []


def _active(look: StatusReading, now_ms: int, width: int | None) -> list[Line]:
    if not look.active:
        return [(Cell("none"),)]
    lines = lay_out(job_grid(in_order(look.active), now_ms), width)
    return lines if look.is_all else [*lines, (Cell("… more: tgpu list --state running", "dim"),)]


def _use_grid(found: MetricsAnswer) -> Grid:
    several = len({gpu.node for gpu in found.gpus}) > 1
    return Grid(_USE_COLUMNS, tuple(_use_row(gpu, several=several) for gpu in found.gpus))


def _use_row(gpu: GpuUseModel, *, several: bool) -> tuple[Cell, ...]:
    told = gpu.readings > 0
    return (
        Cell(clean(gpu.gpu_name) if several else str(gpu.index)),
        Cell(f"{gpu.mean_percent:.1f}%" if told else "not told"),
        Cell(f"{gpu.peak_percent:.1f}%" if told else "not told"),
        Cell(f"paused: {clean(gpu.paused)}" if gpu.paused else "", "magenta"),
    )
