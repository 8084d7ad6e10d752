"""GPUs and jobs as rows of cells, and the line above them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from tgpu.cli.render.folded import is_about, row_key, row_state
from tgpu.cli.render.gpus import gpu_counts, memory_bar, shown_names
from tgpu.cli.render.grid import clean, fit, shorten
from tgpu.cli.render.job_table import job_grid
from tgpu.cli.render.jobs import title
from tgpu.cli.render.why import next_line, why_lines
from tgpu.cli.render.words import number_text, sentence_text
from tgpu.cli.top.source import ScreenReading
from tgpu.wire.v1 import GpuModel, JobModel

GPU_COLUMNS: Final = ("GPU", "TYPE", "STATUS", "MEMORY", "USE", "TEMP", "JOBS", "NOTE")

_BAR: Final = 5
_ROOMY: Final = 100  # columns from which on there is room for whose job it is
_FACTS: Final = 6  # lines of an explanation besides those in its way
_WARM, _HOT = 70, 85  # where data-centre GPUs are well used, and where they slow down
_GPU_STYLES: Final = {
    "free": "green",
    "busy": "bright_blue",
    "shared": "cyan",
    "paused": "magenta",
    "hot": "red",
    "foreign": "yellow",
    "problem": "red",
}
Cells = tuple[Text, ...]
NamedRow = tuple[str, Cells]


@dataclass(frozen=True, slots=True)
class ScreenTable:
    titles: tuple[str, ...]
    rows: list[NamedRow]


def gpu_cells(gpu: GpuModel, name: str) -> Cells:
    shared = gpu.status == "shared" and 0 < gpu.allocated < 1
    status = f"shared {gpu.allocated:.0%}" if shared else gpu.status
    note = gpu.problem or gpu.paused or gpu.foreign or gpu.slow or ""
    return (
        Text(name, justify="right"),
        Text(clean(gpu.gpu_type)),
        Text(status, _GPU_STYLES.get(gpu.status, "")),
        Text(memory_bar(gpu.memory_used_mb, gpu.memory_mb)),
        Text(use_bar(gpu.utilisation_percent)),
        _heat(gpu.temperature_c),
        Text(clean(",".join(gpu.jobs))),
        Text(sentence_text(note), "red" if gpu.problem else ""),
    )


def gpu_table(gpus: Sequence[GpuModel]) -> ScreenTable:
    names = zip(gpus, shown_names(gpus), strict=True)
    return ScreenTable(GPU_COLUMNS, [(name, gpu_cells(gpu, name)) for gpu, name in names])


def use_bar(percent: int | None) -> str:
    if percent is None:
        return ""
    filled = min(_BAR, -(-_BAR * percent // 100))
    return f"{'█' * filled}{'░' * (_BAR - filled)} {percent:>3}%"


def job_table(jobs: Sequence[JobModel], now_ms: int, width: int) -> ScreenTable:
    """The columns that there is room for, as wide as the screen lets them be."""
    grid = fit(job_grid(jobs, now_ms, also=("user",) if width >= _ROOMY else ()), width)
    rows = [
        (
            row_name(job),
            tuple(
                Text(cell.text, cell.style, justify="right" if column.right else "left")
                for column, cell in zip(grid.columns, row, strict=True)
            ),
        )
        for job, row in zip(jobs, grid.rows, strict=True)
    ]
    return ScreenTable(tuple(column.title for column in grid.columns), rows)


def row_name(job: JobModel) -> str:
    return " ".join(row_key(job))


def matches(job: JobModel, wanted: str) -> bool:
    """Whether each word is part of what the row says of whose it is and what it runs."""
    said = f"{job.job_id} {title(job)} {job.user} {job.tenant_id} {row_state(job)}".casefold()
    return all(word in said for word in wanted.casefold().split())


def summary(look: ScreenReading, page: int, chosen: str = "") -> str:
    """What the whole is doing, in a line that fits 80 columns; `chosen` is what is shown of it."""
    status = look.status
    waiting = f"{status.pending_jobs:,} waiting"
    if page or look.next_cursor is not None:
        waiting += f" (page {page + 1})"
    free = f"{number_text(status.available_gpus)} of {status.total_gpus} free"
    told = f"{gpu_counts(look.gpus)}, {free} · {status.running_jobs:,} running · {waiting}"
    return f"{chosen} · {told}" if chosen else told


def below_title(job: JobModel | None, stream: str) -> str:
    if job is None:
        return "no job"
    return f"why job {clean(job.job_id)} waits" if _waits(job) else f"{stream} of job {job.job_id}"


def below(look: ScreenReading, job: JobModel | None, now_ms: int, size: tuple[int, int]) -> str:
    """What there is to read of the chosen job, in so many columns and lines: its log, or why it
    waits, who is in its way and when it starts at the latest."""
    width, height = size
    why = look.why
    if job is None:
        return ""
    if why is None or not is_about(why.job_id, job) or not _waits(job):
        return "" if _waits(job) else log_tail(look.log, height)
    # Who comes before it and when it starts stand behind those in its way: so fewer of these.
    few = why.model_copy(update={"blockers": why.blockers[: max(0, height - _FACTS)]})
    lines = ["".join(cell.text for cell in line).rstrip() for line in why_lines(few, now_ms, width)]
    # What to do next must be seen whatever is cut.
    tail = [next_line(why).strip()] if next_line(why) else []
    shown = [*lines[: max(1, height - len(tail))], *tail]
    return "\n".join(shorten(line, width) for line in shown)


def log_tail(text: str, lines: int) -> str:
    """The last lines, as a terminal would show them: a progress bar overwrites its own line."""
    shown = [clean(line.rstrip("\r").rpartition("\r")[2]) for line in text.split("\n")]
    while shown and not shown[-1]:
        shown.pop()
    return "\n".join(shown[-lines:]) if lines > 0 else ""


def _waits(job: JobModel) -> bool:
    return job.state in ("pending", "preempted")


def _heat(celsius: int | None) -> Text:
    if celsius is None:
        return Text("")
    style = "red" if celsius >= _HOT else "yellow" if celsius >= _WARM else ""
    return Text(f"{celsius}°C", style, justify="right")
