"""The jobs of a journal as a trace for the simulator."""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import msgspec

from tgpu.core.model.events import JobsSubmitted
from tgpu.core.model.heat import Heat
from tgpu.core.model.node import Node
from tgpu.core.model.units import CPU, GPU, SECOND
from tgpu.journal.job_histories import JobHistories, JobHistory
from tgpu.journal.lines import JOB, Journal, JournalLine
from tgpu.journal.rebuild import TELL_EVERY, Tell, snapshot_job
from tgpu.simulate.rows import TraceRow, TraceRows
from tgpu.simulate.world import ONE_POOL, Cluster

COLUMNS: Final = (
    "job_id",
    "submit_s",
    "duration_s",
    "gpus",
    "tenant",
    "user",
    "queue",
    "priority",
    "time_limit_s",
    "gpu_type",
    "cpus",
    "memory_mib",
    "workers",
    "name",
    "state",
    "start_s",
    "end_s",
)
Record = dict[str, str | int | float]


class Listing:
    """What was counted beside the jobs that were listed."""

    def __init__(self) -> None:
        self.jobs = 0
        self.not_over = 0
        self.never_ran = 0
        self.origin: int | None = None  # the first submission of those that are wanted

    def came(self, at: int) -> None:
        self.origin = at if self.origin is None else min(self.origin, at)


def ended_lives(
    journal: Journal,
    listing: Listing,
    wanted: Callable[[JobHistory], bool] = lambda _: True,
    tell: Tell | None = None,
) -> Iterator[JobHistory]:
    """Jobs that are over and had GPUs, in the order in which they ended."""
    over: list[JobHistory] = []
    lives = JobHistories(over.append)
    for count, row in enumerate(journal.rows(), 1):
        if not row.seq:
            if row.kind == JOB:
                life = _restore(journal, lives, row)
                if wanted(life):
                    listing.came(life.job.submitted_at)
            continue
        event = journal.event(row)
        lives.take(row, event)
        if isinstance(event, JobsSubmitted) and listing.origin is None:
            for job in event.jobs:
                if wanted(JobHistory(job)):
                    listing.came(job.submitted_at)
        for life in over:
            if life.first_start is None:
                listing.never_ran += wanted(life)
            elif wanted(life):
                listing.jobs += 1
                yield life
        over.clear()
        if tell is not None and not count % TELL_EVERY:
            tell(TELL_EVERY)
    listing.not_over = sum(wanted(life) for life in lives.live.values())


def _restore(journal: Journal, lives: JobHistories, row: JournalLine) -> JobHistory:
    try:
        job, progress, _ = snapshot_job(row)
    except (msgspec.DecodeError, RecursionError) as error:
        raise journal.bad(
            row.line, "job", f"is not a job of a snapshot: {error}", "no job"
        ) from None
    return lives.restore(job, progress, progress.started_at or job.submitted_at)


def records(lives: Iterator[JobHistory], listing: Listing) -> Iterator[Record]:
    """Rows of a job list; its seconds are counted from the first submission."""
    for life in lives:
        since = listing.origin or 0
        job = life.job
        request, limit = job.request, job.options.time_limit_ms
        yield {
            "job_id": job.job_id,
            "submit_s": (job.submitted_at - since) / SECOND,
            "duration_s": life.run_ms / SECOND,
            "gpus": request.gpu_millis / GPU,
            "tenant": job.tenant_id,
            "user": job.options.user,
            "queue": job.queue,
            "priority": job.priority,
            "time_limit_s": "" if limit is None else limit / SECOND,
            "gpu_type": request.gpu_type or "|".join(request.where.gpu_types),
            "cpus": request.cpu_millis / CPU,
            "memory_mib": request.mem_mib,
            "workers": request.workers,
            "name": life.name,
            "state": life.state.value,
            "start_s": ((life.first_start or 0) - since) / SECOND,
            "end_s": ((life.ended_at or 0) - since) / SECOND,
        }


def csv_lines(rows: Iterator[Record]) -> Iterator[bytes]:
    buffer = io.StringIO()
    table = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow(row)
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode()  # the header of a list without jobs


def ndjson_lines(rows: Iterator[Record]) -> Iterator[bytes]:
    for row in rows:
        yield msgspec.json.encode({k: v for k, v in row.items() if v != ""}) + b"\n"


def read_rows(journal: Journal, tell: Tell | None = None) -> TraceRows:
    """The jobs as the simulator takes them, from the first submission on."""
    listing = Listing()
    lives = list(ended_lives(journal, listing, tell=tell))
    lives.sort(key=lambda life: (life.job.submitted_at, life.job.job_id))
    first = lives[0].job.submitted_at if lives else 0
    rows = TraceRows(journal.name, "journal", left_out=listing.not_over + listing.never_ran)
    for number, life in enumerate(lives, 1):
        job, request = life.job, life.job.request
        types = (request.gpu_type,) if request.gpu_type else request.where.gpu_types
        rows.jobs.append(
            TraceRow(
                number,
                job.job_id,
                job.submitted_at - first,
                life.run_ms,
                request.gpu_millis,
                tenant=job.tenant_id,
                user=job.options.user,
                queue=job.queue,
                priority=job.priority,
                time_limit_ms=job.options.time_limit_ms,
                gpu_types=types,
                cpu_millis=request.cpu_millis,
                mem_mib=request.mem_mib,
                workers=request.workers,
            )
        )
    return rows


def cluster_of(journal: Journal) -> Cluster:
    """The nodes and tenants that the header names, all of them well."""
    nodes = tuple(_well(node) for node in journal.header.nodes)
    return Cluster({ONE_POOL: nodes}, journal.header.tenants)


def _well(node: Node) -> Node:
    """What is paused, hot or out of order today was not while these jobs ran."""
    gpus = [
        replace(gpu, problem=None, paused=None, foreign=None, heat=Heat.COOL) for gpu in node.gpus
    ]
    return replace(node, gpus=tuple(gpus))
