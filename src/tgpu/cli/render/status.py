"""The whole in a page: status with all details, metrics, health."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tgpu.cli.render.gpus import gpu_grid, process_lines, status_details
from tgpu.cli.render.grid import Cell, Line, clean, lay_out
from tgpu.cli.render.jobs import title
from tgpu.cli.render.words import sentence_text
from tgpu.wire.metrics_v1 import GpuUseModel, MetricsAnswer
from tgpu.wire.v1 import ClusterStatus, GpuList, GpuModel, Health, JobModel

_BLANK: Final[Line] = (Cell(""),)


@dataclass(frozen=True, slots=True)
class Look:
    """What the service said at about one moment."""

    status: ClusterStatus
    metrics: MetricsAnswer
    gpus: GpuList
    active: Sequence[JobModel]  # the newest of those that run
    health: Health


def detailed_lines(look: Look, now_ms: int, width: int | None) -> list[Line]:
    status, waiting = look.status, look.metrics.waiting
    return [
        *_headed("🚀 GPU Scheduler Status", "=" * 50),
        *_texts(
            f"Version: {status.version}",
            "Status: running",
            f"Uptime: {status.uptime_seconds:.0f} seconds",
            f"Jobs Processed: {look.metrics.ended_jobs}",
        ),
        _BLANK,
        *_headed("📋 Queue Status:"),
        *_texts(
            f"  Total Jobs: {status.pending_jobs}",
            f"  High Priority: {waiting.high}",
            f"  Normal Priority: {waiting.normal}",
            f"  Low Priority: {waiting.low}",
        ),
        _BLANK,
        *_headed("🎮 GPU Resources:"),
        *(_gpu_line(gpu) for gpu in look.gpus.gpus),
        _BLANK,
        *_headed(f"🏃 Active Jobs: {status.running_jobs}"),
        *_active(look),
        _BLANK,
        *health_lines(look.health),
        _BLANK,
        *_headed("Hardware:"),
        *lay_out(gpu_grid(look.gpus, now_ms), width),
        *process_lines(look.gpus),
        _BLANK,
        *_headed("Settings:"),
        *status_details(status),
    ]


def metrics_lines(found: MetricsAnswer) -> list[Line]:
    runs = found.runs
    return [
        *_headed("📊 Performance Metrics", "=" * 30),
        *_texts(
            f"Total Jobs: {found.total_jobs}",
            f"Avg Execution Time: {_seconds(runs.mean_seconds)}",
            f"Median Execution Time: {_seconds(runs.median_seconds)}",
        ),
        _BLANK,
        *_headed("GPU Utilization:"),
        *(_use_line(gpu) for gpu in found.gpus),
    ]


def health_lines(found: Health) -> list[Line]:
    if found.status == "healthy":
        return [(Cell("✅ Health: HEALTHY", "green"),)]
    head: Line = (Cell(f"❌ Health: {clean(found.status).upper()}", "red"),)
    return [head, *_texts(*(f"  {sentence_text(problem)}" for problem in found.problems))]


def _headed(*lines: str) -> list[Line]:
    return [(Cell(line, "bold"),) for line in lines]


def _texts(*lines: str) -> list[Line]:
    return [(Cell(line),) for line in lines]


def _gpu_line(gpu: GpuModel) -> Line:
    if gpu.paused:
        return (Cell(f"  GPU {gpu.index}: PAUSED ({clean(gpu.paused)})", "magenta"),)
    if gpu.problem:
        return (Cell(f"  GPU {gpu.index}: OUT OF ORDER ({sentence_text(gpu.problem)})", "red"),)
    return (Cell(f"  GPU {gpu.index}: {gpu.allocated:.0%} allocated"),)


def _active(look: Look) -> list[Line]:
    lines = _texts(*(f"  {clean(j.job_id)}: {title(j)} (GPUs: {j.gpus})" for j in look.active))
    more = look.status.running_jobs - len(look.active)
    return [*lines, *_texts(f"  … and {more} more")] if look.active and more > 0 else lines


def _seconds(seconds: float | None) -> str:
    return "none yet" if seconds is None else f"{seconds:.1f}s"


def _use_line(gpu: GpuUseModel) -> Line:
    paused = " (PAUSED)" if gpu.paused else ""
    use = f"{gpu.mean_percent:.1f}% avg, {gpu.peak_percent:.1f}% peak"
    return (Cell(f"  GPU {gpu.index}: {use if gpu.readings else 'not told'}{paused}"),)
