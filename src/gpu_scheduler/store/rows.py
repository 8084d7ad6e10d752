"""What one commit writes, as flat lists of column values ready to be bound.

Everything is encoded here, before the transaction begins: a value that cannot be encoded fails
without the database having been touched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from gpu_scheduler.core.errors import InvariantBroken
from gpu_scheduler.core.events import JobMoved, JobsSubmitted, NodeSet, TenantSet, TimePassed
from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import NO_DETAIL, Detail, Job
from gpu_scheduler.core.lifecycle import PENDING, PENDING_HELD, TERMINAL, JobState
from gpu_scheduler.store import codec
from gpu_scheduler.store.api import Record

Value = str | int | None

_PENDING_STATE: Final = JobState.PENDING.value
_PENDING: Final = codec.progress_text(PENDING)
_PENDING_HELD: Final = codec.progress_text(PENDING_HELD)

JOURNAL_COLUMNS: Final = ("seq", "at", "kind", "job_id", "payload")
JOB_COLUMNS: Final = (
    "number",
    "job_id",
    "state",
    "tenant_id",
    "name",
    "user",
    "array_id",
    "submitted_at",
    "submit_seq",
    "facts",
    "detail",
    "progress",
)


@dataclass(slots=True)
class Rows:
    """Flat: one list of values for many rows, which is how a many-row statement binds them."""

    seq: int  # the last one given out
    number: int  # the last one given out
    journal: list[Value] = field(default_factory=list)
    jobs: list[Value] = field(default_factory=list)
    # Only the last progress of a job counts, however often it moved within one commit.
    moves: dict[JobId, tuple[JobId, str, int | None, str]] = field(default_factory=dict)
    tenants: list[Value] = field(default_factory=list)
    nodes: list[Value] = field(default_factory=list)
    environments: list[Value] = field(default_factory=list)

    def is_empty(self) -> bool:
        return not self.journal and not self.environments


def rows_of(record: Record, seq: int, number: int) -> Rows:
    """The rows of a record that comes after these last numbers of the journal and the jobs."""
    rows = Rows(seq, number)
    for env_id, environment in record.environments.items():
        rows.environments += (env_id, codec.environment_text(environment))
    for event in record.events:
        rows.seq += 1
        match event:
            case JobMoved():
                _add_move(rows, event)
            case JobsSubmitted():
                _add_jobs(rows, event, record.details)
            case TenantSet(at, tenant):
                text = codec.tenant_text(tenant)
                rows.tenants += (tenant.tenant_id, text)
                rows.journal += (rows.seq, at, "tenant_set", None, f'{{"at":{at},"tenant":{text}}}')
            case NodeSet(at, node):
                text = codec.node_text(node)
                rows.nodes += (node.node_id, text)
                rows.journal += (rows.seq, at, "node_set", None, f'{{"at":{at},"node":{text}}}')
            case TimePassed():
                raise InvariantBroken("TimePassed is applied only, never recorded")
            case _:
                assert_never(event)
    return rows


def _add_move(rows: Rows, event: JobMoved) -> None:
    progress = event.progress
    text = codec.progress_text(progress)
    job_id = event.job_id
    ended_at = None
    if progress.state in TERMINAL:
        ended_at = event.at if progress.ended_at is None else progress.ended_at
    rows.moves[job_id] = (job_id, progress.state.value, ended_at, text)
    rows.journal += (rows.seq, event.at, "job_moved", job_id, codec.moved_text(event, text))


def _add_jobs(rows: Rows, event: JobsSubmitted, details: Mapping[JobId, Detail]) -> None:
    held = event.held
    texts: list[str] = []
    facts_of = _FactsTexts()
    number, seq, values = rows.number, rows.seq, rows.jobs
    for job in event.jobs:
        number += 1
        job_id = job.job_id
        facts = facts_of(job)
        detail = details.get(job_id, NO_DETAIL)
        detail_text = codec.detail_text(detail)
        texts.append(codec.submitted_job_text(job, facts, detail, detail_text))
        values += (
            number,
            job_id,
            _PENDING_STATE,
            job.tenant_id,
            detail.name,
            detail.user,
            None if job.array is None else job.array.array_id,
            job.submitted_at,
            seq,
            facts,
            detail_text,
            _PENDING_HELD if job_id in held else _PENDING,
        )
    rows.number = number
    payload = codec.submission_text(event.at, texts, sorted(held))
    rows.journal += (seq, event.at, "jobs_submitted", codec.job_of(event), payload)


class _FactsTexts:
    """The text of a job's facts, encoded once for all jobs that share the same objects.

    By identity, not equality: hashing a dataclass costs about what encoding it does. The event
    keeps the objects alive, so no identity is used twice.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[int, int, int, int, int, str], str] = {}

    def __call__(self, job: Job) -> str:
        key = (
            id(job.request),
            id(job.options),
            id(job.after),
            id(job.array),
            job.priority,
            job.queue,
        )
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = codec.facts_text(job)
        return text
