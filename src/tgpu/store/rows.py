"""What one commit writes, as flat lists of column values ready to be bound.

Everything is encoded here, before the transaction begins: a value that cannot be encoded fails
without the database having been touched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from tgpu.core.errors import InvariantBroken
from tgpu.core.model.events import (
    BookingRemoved,
    BookingSet,
    ClockStepped,
    JobChanged,
    JobMoved,
    JobsSubmitted,
    MixSet,
    NodeSet,
    QueueRemoved,
    QueueSet,
    SettingsSet,
    TenantSet,
    TimePassed,
    UsageAdded,
)
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import NO_DETAIL, Detail, Job
from tgpu.core.model.lifecycle import PENDING, PENDING_HELD, TERMINAL, JobState
from tgpu.core.model.usage import NO_USAGE, GpuTimeUsage
from tgpu.store import codec, event_codec
from tgpu.store.api import Record

Value = str | int | bytes | None

_DAY_MS: Final = 86_400_000

_PENDING_STATE: Final = JobState.PENDING.value
_PENDING: Final = codec.progress_text(PENDING)
_PENDING_HELD: Final = codec.progress_text(PENDING_HELD)

JOURNAL_COLUMNS: Final = ("seq", "at", "kind", "job_id", "payload", "decision", "decided_by")
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
    "nonce",
)
AUDIT_COLUMNS: Final = (
    "seq",
    "at",
    "actor",
    "action",
    "target",
    "tenant_id",
    "origin",
    "outcome",
    "detail",
    "decision",
    "request_id",
)
USAGE_COLUMNS: Final = (
    "day",
    "tenant_id",
    "queue",
    "gpu_millis_ms",
    "completed",
    "failed",
    "cancelled",
)


@dataclass(frozen=True, slots=True)
class Last:
    """The last numbers given out: those of a commit go on from there."""

    seq: int = 0  # of the journal
    number: int = 0  # of the jobs
    audit: int = 0  # of the audit rows


@dataclass(slots=True)
class FlatRows:
    """Flat: one list of values for many rows, which is how a many-row statement binds them.

    Where a later row replaces an earlier one there is a dictionary instead: a statement of many
    rows may name each only once.
    """

    seq: int
    number: int
    journal: list[Value] = field(default_factory=list)
    jobs: list[Value] = field(default_factory=list)
    # Only the last progress of a job counts, however often it moved within one commit.
    moves: dict[JobId, tuple[JobId, str, int | None, str]] = field(default_factory=dict)
    aged_ms: int = 0  # when jobs came that are not over, is so much later
    changes: dict[JobId, tuple[JobId, str]] = field(default_factory=dict)  # the facts of jobs
    names: dict[JobId, tuple[JobId, str]] = field(default_factory=dict)  # … and their new names
    tenants: dict[TenantId, str] = field(default_factory=dict)
    queues: dict[tuple[str, str], str | None] = field(default_factory=dict)  # None deletes
    usage: dict[tuple[int, TenantId, str], GpuTimeUsage] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    environments: list[Value] = field(default_factory=list)
    documents: dict[tuple[str, str], bytes | None] = field(default_factory=dict)  # None deletes
    audit: list[Value] = field(default_factory=list)
    last: Last = Last()  # the numbers once these rows are written

    def is_empty(self) -> bool:
        return not (self.journal or self.environments or self.documents or self.audit)


def day_of(at: int) -> int:
    """Days since the epoch, UTC."""
    return at // _DAY_MS


def rows_of(record: Record, last: Last) -> FlatRows:
    """The rows of a record that comes after these last numbers."""
    rows = FlatRows(last.seq, last.number, documents=dict(record.documents))
    for env_id, environment in record.environments.items():
        rows.environments += (env_id, codec.environment_text(environment))
    for event, decision in record.decided():
        rows.seq += 1
        if isinstance(event, JobsSubmitted):
            _add_jobs(rows, event, record.details)
        elif isinstance(event, JobMoved):
            _add_move(rows, event)
        elif isinstance(event, JobChanged):
            _add_change(rows, event)
        else:
            _add_setting(rows, event)
            text = event_codec.event_text(event, {})
            rows.journal += (rows.seq, event.at, event_codec.kind_of(event), None, text)
        rows.journal += (None, None) if decision is None else (decision.number, decision.by.value)
    _add_audit(rows, record, last.audit)
    rows.last = Last(rows.seq, rows.number, last.audit + len(record.audit))
    return rows


def _add_setting(rows: FlatRows, event: event_codec.Setting) -> None:
    match event:
        case TenantSet(_, tenant):
            rows.tenants[tenant.tenant_id] = codec.tenant_text(tenant)
        case QueueSet(_, queue):
            rows.queues[queue.tenant_id, queue.name] = codec.queue_text(queue)
        case QueueRemoved(_, tenant_id, name):
            rows.queues[tenant_id, name] = None
        case UsageAdded(at, tenant_id, queue_name, usage):
            key = (day_of(at), tenant_id, queue_name)
            rows.usage[key] = rows.usage.get(key, NO_USAGE) + usage
        case NodeSet(_, node):
            rows.nodes[node.node_id] = codec.node_text(node)
        case ClockStepped():
            rows.aged_ms += event.by
            for job_id, progress in event.moved:
                text = codec.progress_text(progress)
                rows.moves[job_id] = (job_id, progress.state.value, None, text)
        case BookingSet() | BookingRemoved() | MixSet():
            pass  # kept as documents beside the journal's row
        case SettingsSet():
            pass  # nothing but the journal has it: replay reads it there
        case TimePassed():
            raise InvariantBroken("TimePassed is applied only, never recorded")
        case _:
            assert_never(event)


def _add_audit(rows: FlatRows, record: Record, seq: int) -> None:
    for number, row in enumerate(record.audit, seq + 1):
        rows.audit += (
            number,
            row.at,
            row.actor,
            row.action,
            row.target,
            row.tenant_id,
            row.origin,
            row.outcome,
            row.detail,
            row.decision,
            row.request_id,
        )


def usage_values(key: tuple[int, TenantId, str], usage: GpuTimeUsage) -> tuple[Value, ...]:
    return (*key, usage.gpu_millis_ms, usage.completed, usage.failed, usage.cancelled)


def _add_move(rows: FlatRows, event: JobMoved) -> None:
    progress = event.progress
    text = codec.progress_text(progress)
    job_id = event.job_id
    ended_at = None
    if progress.state in TERMINAL:
        ended_at = event.at if progress.ended_at is None else progress.ended_at
    rows.moves[job_id] = (job_id, progress.state.value, ended_at, text)
    rows.journal += (rows.seq, event.at, "job_moved", job_id, event_codec.moved_text(event, text))


def _add_change(rows: FlatRows, event: JobChanged) -> None:
    job_id, facts = event.job.job_id, codec.facts_text(event.job)
    rows.changes[job_id] = (job_id, facts)
    if event.name is not None:
        rows.names[job_id] = (job_id, event.name)
    payload = event_codec.changed_text(event, facts)
    rows.journal += (rows.seq, event.at, "job_changed", job_id, payload)


def _add_jobs(rows: FlatRows, event: JobsSubmitted, details: Mapping[JobId, Detail]) -> None:
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
        texts.append(event_codec.submitted_job_text(job, facts, detail, detail_text))
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
            job.nonce,
        )
    rows.number = number
    payload = event_codec.submission_text(event.at, texts, sorted(held))
    rows.journal += (seq, event.at, "jobs_submitted", event_codec.job_of(event), payload)


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
