"""GPUs and jobs as rows of cells, and the line above them."""

from typing import Final

from rich.text import Text

from tgpu.cli.render.estimate import starts_in
from tgpu.cli.render.gpus import gpu_counts, memory_bar
from tgpu.cli.render.grid import clean, shorten
from tgpu.cli.render.jobs import shown_state, title
from tgpu.cli.render.why import next_line, why_lines
from tgpu.cli.render.words import index_ranges, number_text, sentence_text, since
from tgpu.cli.top.source import Look
from tgpu.wire.v1 import GpuModel, JobModel

GPU_COLUMNS: Final = ("GPU", "TYPE", "STATUS", "MEMORY", "USE", "TEMP", "JOBS", "NOTE")
JOB_COLUMNS: Final = ("JOB", "NAME", "STATE", "GPUS", "ON", "TIME", "STARTS IN", "REASON")

_BAR: Final = 5
_NAME_WIDTH: Final = 18
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
_JOB_STYLES: Final = {
    "running": "green",
    "starting": "cyan",
    "pending": "yellow",
    "held": "magenta",
    "preempted": "yellow",
}

Cells = tuple[Text, ...]


def gpu_cells(gpu: GpuModel) -> Cells:
    shared = gpu.status == "shared" and 0 < gpu.allocated < 1
    status = f"shared {gpu.allocated:.0%}" if shared else gpu.status
    note = gpu.problem or gpu.paused or gpu.foreign or gpu.slow or ""
    return (
        Text(str(gpu.index), justify="right"),
        Text(clean(gpu.gpu_type)),
        Text(status, _GPU_STYLES.get(gpu.status, "")),
        Text(memory_bar(gpu.memory_used_mb, gpu.memory_mb)),
        Text(use_bar(gpu.utilisation_percent)),
        _heat(gpu.temperature_c),
        Text(clean(",".join(gpu.jobs))),
        Text(sentence_text(note), "red" if gpu.problem else ""),
    )


def use_bar(percent: int | None) -> str:
    if percent is None:
        return ""
    filled = min(_BAR, -(-_BAR * percent // 100))
    return f"{'█' * filled}{'░' * (_BAR - filled)} {percent:>3}%"


def job_cells(job: JobModel, now_ms: int) -> Cells:
    state = shown_state(job)
    span = since(job.started_at if job.state == "running" else job.submitted_at, now_ms)
    count = number_text(job.gpu_count)
    return (
        Text(clean(job.job_id)),
        Text(shorten(title(job), _NAME_WIDTH)),
        Text(state, _JOB_STYLES.get(state, "")),
        Text(f"{count} {clean(job.gpu_type or '')}".rstrip()),
        Text(index_ranges(job.gpus) if job.started_at else ""),
        Text(span, justify="right"),
        Text(starts_in(job.estimate, now_ms)),
        Text(_reason(job)),
    )


def summary(look: Look, page: int) -> str:
    """What the whole is doing, in a line that fits 80 columns."""
    status = look.status
    waiting = f"{status.pending_jobs:,} waiting"
    if page or look.next_cursor is not None:
        waiting += f" (page {page + 1})"
    free = f"{number_text(status.available_gpus)} of {status.total_gpus} free"
    return f"{gpu_counts(look.gpus)}, {free} · {status.running_jobs:,} running · {waiting}"


def below_title(job: JobModel | None, stream: str) -> str:
    if job is None:
        return "no job"
    return f"why job {clean(job.job_id)} waits" if _waits(job) else f"{stream} of job {job.job_id}"


def below(look: Look, job: JobModel | None, now_ms: int, size: tuple[int, int]) -> str:
    """What there is to read of the chosen job, in so many columns and lines: its log, or why it
    waits, who is in its way and when it starts at the latest."""
    width, height = size
    why = look.why
    if job is None:
        return ""
    if why is None or why.job_id != job.job_id or not _waits(job):
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


def _reason(job: JobModel) -> str:
    if job.reason is not None:
        return sentence_text(job.reason.message)
    return sentence_text(job.cause or "")


def _heat(celsius: int | None) -> Text:
    if celsius is None:
        return Text("")
    style = "red" if celsius >= _HOT else "yellow" if celsius >= _WARM else ""
    return Text(f"{celsius}°C", style, justify="right")
