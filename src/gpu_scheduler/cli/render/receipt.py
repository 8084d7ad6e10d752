"""What a job has used up, as facts and a table of its attempts."""

from typing import Final

from gpu_scheduler.cli.durations import duration_text
from gpu_scheduler.cli.render.failures import failure_text
from gpu_scheduler.cli.render.grid import Cell, Column, Grid, Line, clean, facts, lay_out
from gpu_scheduler.cli.render.words import (
    clock_text,
    gpus_text,
    index_ranges,
    mebibytes_text,
    number_text,
)
from gpu_scheduler.wire.receipt_v1 import AttemptUseModel, ReceiptModel

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
        ("cause", found.cause or ""),
        ("tenant", found.tenant_id),
        ("user", found.user),
        ("submitted", clock_text(found.submitted_at, now_ms)),
        ("ended", clock_text(found.ended_at, now_ms) if found.ended_at else ""),
        ("waited", duration_text(found.wait_seconds)),
        ("ran", duration_text(found.run_seconds)),
        ("GPUs", gpus_text(found.gpu_count)),
        ("GPU-hours", _hours(found.gpu_hours) + (f", {_hours(lost)} of them lost" if lost else "")),
        ("peak memory", "" if peak is None else mebibytes_text(peak)),
        ("cost", "" if found.cost is None else number_text(found.cost)),
        ("note", "" if found.complete else "the record does not reach back to its beginning"),
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
        Cell(f"GPU {index_ranges(use.gpus)}" if use.gpus else ""),
        Cell(_hours(use.gpu_hours)),
        Cell(clean(use.failure or "")),
    )


def _hours(hours: float) -> str:
    return f"{hours:.4f}" if 0 < hours < 1 else f"{hours:.2f}"
