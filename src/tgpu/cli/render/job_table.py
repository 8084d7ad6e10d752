"""Jobs as a table that fits: its columns, and which are dropped first.

An array or sweep that the service folded is one row: the job stands for all its elements.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tgpu.cli.render.estimate import starts_in
from tgpu.cli.render.folded import (
    id_text,
    order,
    outcome_text,
    params_text,
    row_state,
    row_title,
    span_text,
)
from tgpu.cli.render.grid import Cell, Column, Grid, clean
from tgpu.cli.render.jobs import (
    STATE_STYLES,
    count_text,
    gpus_held,
)
from tgpu.cli.render.words import since
from tgpu.text.durations import duration_text
from tgpu.text.instants import iso_millis
from tgpu.wire.v1 import ClusterStatus, JobModel

Show = Callable[[JobModel, int], str]


@dataclass(frozen=True, slots=True)
class _Field:
    """A column, and what it says of a job at an instant."""

    column: Column
    text: Show
    # Whether it says anything where all rows are alike; None: always.
    differs: Callable[[JobModel], object] | None = None
    is_asked: bool = False  # only where it is asked for


def _left(job: JobModel, now_ms: int) -> str:
    """Until its time limit ends it, which goes on while it is paused."""
    limit, runs = job.max_runtime_minutes, row_state(job) in ("running", "paused")
    if not runs or limit is None or job.started_at is None or _is_folded(job):
        return ""
    return duration_text(limit * 60 - (now_ms - iso_millis(job.started_at)) / 1000)


def _is_folded(job: JobModel) -> bool:
    return job.array is not None and job.array.progress is not None


# In the order of a table. Where there is no room, the widest are cut to what they want; then those
# that are extra go, the highest `leave_out` first; then the others are cut to their least, and go.
# An id is never cut: it is there to be typed.
_FIELDS: Final = {
    "job": _Field(Column("JOB"), lambda job, _: id_text(job)),
    "name": _Field(Column("NAME", least=10, leave_out=1, want=12), lambda job, _: row_title(job)),
    "params": _Field(
        Column("PARAMS", least=10, leave_out=4, want=12, extra=True),
        lambda job, _: params_text(job),
    ),
    "state": _Field(Column("STATE"), lambda job, _: row_state(job)),
    "gpus": _Field(
        Column("GPUS", leave_out=2),
        lambda job, _: f"{count_text(job)} {clean(job.gpu_type or '')}".rstrip(),
    ),
    "on": _Field(
        Column("ON", least=3, leave_out=8, extra=True),
        lambda job, _: gpus_held(job) if job.started_at and not _is_folded(job) else "",
    ),
    "tenant": _Field(
        Column("TENANT", least=6, leave_out=6, want=10, extra=True),
        lambda job, _: clean(job.tenant_id),
        lambda job: job.tenant_id,
    ),
    "user": _Field(
        Column("USER", least=6, leave_out=5, want=10, extra=True),
        lambda job, _: clean(job.user),
        lambda job: job.user,
    ),
    "queue": _Field(
        Column("QUEUE", least=6, leave_out=10, extra=True),
        lambda job, _: clean(job.queue),
        is_asked=True,
    ),
    "prio": _Field(
        Column("PRIO", leave_out=9, right=True, extra=True),
        lambda job, _: str(job.priority),
        lambda job: job.priority,
    ),
    "submitted": _Field(
        Column("SUBMITTED", leave_out=11, extra=True),
        lambda job, now_ms: f"{since(job.submitted_at, now_ms)} ago",
        is_asked=True,
    ),
    "time": _Field(Column("TIME", right=True, leave_out=3), span_text),
    "left": _Field(Column("TIME LEFT", right=True, leave_out=5, extra=True), _left),
    "starts": _Field(
        Column("STARTS IN", leave_out=7, extra=True),
        lambda job, now_ms: starts_in(job.estimate, now_ms),
    ),
    "reason": _Field(Column("REASON", least=18, want=33), outcome_text),
}
COLUMNS: Final = tuple(_FIELDS)


def in_order(jobs: Iterable[JobModel]) -> list[JobModel]:
    """Running first, then waiting with the next one first, then ended with the newest first."""
    return sorted(jobs, key=order)


def job_grid(
    jobs: Sequence[JobModel],
    now_ms: int,
    columns: Sequence[str] = (),
    *,
    wide: bool = False,
    also: Sequence[str] = (),
) -> Grid:
    """`columns`: these alone, none of which goes; `wide`: all there are; `also`: these as well."""
    names = columns or [
        name for name in COLUMNS if name in also or _is_shown(_FIELDS[name], jobs, wide)
    ]
    fields = [_FIELDS[name] for name in names]
    rows = tuple(
        tuple(
            Cell(field.text(job, now_ms), _style(name, job))
            for name, field in zip(names, fields, strict=True)
        )
        for job in jobs
    )
    kept = [replace(field.column, leave_out=0) if columns else field.column for field in fields]
    return Grid(tuple(kept), rows)


def counts_text(status: ClusterStatus) -> str:
    """3 running, 12 waiting, 240 over; 5 of 8 GPUs in use"""
    running, waiting = status.running_jobs, status.pending_jobs
    over = max(0, status.total_jobs - running - waiting)
    gpus = "no GPUs" if not status.total_gpus else f"{status.used_gpus:g} of {status.total_gpus}"
    in_use = gpus if not status.total_gpus else f"{gpus} GPU{'s' * (status.total_gpus != 1)} in use"
    return f"{running:,} running, {waiting:,} waiting, {over:,} over; {in_use}"


def _is_shown(field: _Field, jobs: Sequence[JobModel], wide: bool) -> bool:
    if wide:
        return True
    if field.is_asked:
        return False
    return field.differs is None or len({field.differs(job) for job in jobs}) > 1


def _style(name: str, job: JobModel) -> str:
    return STATE_STYLES.get(row_state(job), "") if name == "state" else ""
