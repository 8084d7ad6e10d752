"""A receipt as facts and a table of attempts."""

from typing import Final

from tgpu.cli.render.failures import failure_text
from tgpu.cli.render.grid import Cell, Column, Grid, Line, clean, facts, lay_out
from tgpu.cli.render.words import (
    clock_text,
    gpu_hours_text,
    gpus_text,
    index_ranges,
    number_text,
    sentence_text,
)
from tgpu.text.durations import duration_text
from tgpu.text.instants import iso_millis
from tgpu.text.sizes import mebibytes_text
from tgpu.wire.receipt_v1 import AnnouncedModel, AttemptUseModel, ReceiptModel

_COLUMNS: Final = (
    Column("ATTEMPT", right=True),
    Column("STARTED", least=19),
    Column("RAN", right=True),
    Column("ON"),
    Column("GPU-HOURS", right=True),
    Column("FAILURE", least=10, leave_out=1),
)


def receipt_lines(found: ReceiptModel, now_ms: int, width: int | None) -> list[Line]:
    peak = found.peak_gpu_memory_mb
    lost = found.lost_gpu_hours
    pairs = [
        ("job", f"{found.job_id} {found.name}".rstrip()),
        ("state", found.state),
        ("failure", failure_text(found.failure)),
        ("cause", sentence_text(found.cause or "")),
        ("tenant", found.tenant_id),
        ("user", found.user),
        ("submitted", clock_text(found.submitted_at, now_ms)),
        ("ended", clock_text(found.ended_at, now_ms) if found.ended_at else ""),
        ("waited", duration_text(found.wait_seconds)),
        ("estimated", _estimated(found.announced)),
        ("ran", duration_text(found.run_seconds) + _paused(found.paused_seconds)),
        ("GPUs", gpus_text(found.gpu_count)),
        (
            "GPU-hours",
            gpu_hours_text(found.gpu_hours)
            + (f", {gpu_hours_text(lost)} of them lost" if lost else ""),
        ),
        ("peak memory", "" if peak is None else mebibytes_text(peak)),
        ("cost", "" if found.cost is None else number_text(found.cost)),
        ("note", "" if found.complete else "the records do not go back to its submission"),
    ]
    lines = facts([(name, value) for name, value in pairs if value])
    if not found.attempts:
        return lines
    blank: Line = (Cell(""),)
    rows = tuple(_row(each, now_ms) for each in found.attempts)
    return [*lines, blank, *lay_out(Grid(_COLUMNS, rows), width)]


def _row(use: AttemptUseModel, now_ms: int) -> tuple[Cell, ...]:
    return (
        Cell(str(use.attempt)),
        Cell(clock_text(use.started_at, now_ms)),
        Cell(duration_text(use.run_seconds)),
        Cell(f"GPU {clean(use.gpu_text) or index_ranges(use.gpus)}" if use.gpus else ""),
        Cell(gpu_hours_text(use.gpu_hours)),
        Cell(clean(use.failure or "")),
    )


def _paused(seconds: float) -> str:
    return f", {duration_text(seconds)} of it paused" if seconds else ""


def _estimated(told: AnnouncedModel | None) -> str:
    """The estimated wait, against the actual one."""
    if told is None:
        return ""
    at = iso_millis(told.at)
    spans = [duration_text((iso_millis(text) - at) / 1000) for text in (told.p50, told.p90)]
    text = f"wait of {spans[0]} to {spans[1]}"
    if told.started_at is None or told.error_seconds is None:
        return text
    waited = duration_text((iso_millis(told.started_at) - at) / 1000)
    how = "within the estimate" if told.before_p90 else "later than estimated"
    return f"{text}; started after {waited}, {how}"
