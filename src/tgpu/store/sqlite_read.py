"""What is read from SQLite.

While the service runs, each read asks for one row that holds all of its answer as JSON: every row
of a plain SELECT would give up the interpreter lock and wait for its turn again (see
`sqlite_write`). Only the load at start, when nobody else runs, fetches row by row.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final

import msgspec

from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import TERMINAL, JobState, Progress
from tgpu.core.model.node import Node
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.store import codec, event_codec
from tgpu.store.api import (
    AuditRow,
    DailyUsage,
    Decider,
    JobQuery,
    JournalRow,
    StoredJob,
    decision_id,
)
from tgpu.store.folding import COUNT_FOLDED
from tgpu.store.job_rows import JobRow, stored_jobs

_ENCODER: Final = msgspec.json.Encoder()

_JOB: Final = "number, job_id, tenant_id, submitted_at, facts, detail, name, user, progress, nonce"
_JOBS: Final = msgspec.json.Decoder(list[JobRow])

_EventRow = tuple[int, int, str, JobId | None, str, int | None, Decider | None]
_EVENT: Final = "seq, at, kind, job_id, payload, decision, decided_by"
_EVENTS: Final = msgspec.json.Decoder(list[_EventRow])

_UsageRow = tuple[int, TenantId, str, int, int, int, int]
_USAGE: Final = "day, tenant_id, queue, gpu_millis_ms, completed, failed, cancelled"
_USAGES: Final = msgspec.json.Decoder(list[_UsageRow])

_AUDIT: Final = (
    "at, actor, action, target, tenant_id, origin, outcome, detail, seq, decision, request_id"
)
_AUDITS: Final = msgspec.json.Decoder(
    list[tuple[int, str, str, str, TenantId | None, str, str, str, int, int | None, str | None]]
)

_RERUNS: Final = msgspec.json.Decoder(list[tuple[int, JobId, str]])
_IDS: Final = msgspec.json.Decoder(set[JobId])


# -- at start ----------------------------------------------------------------------------------


def tenants(connection: sqlite3.Connection) -> tuple[Tenant, ...]:
    rows = connection.execute("SELECT data FROM tenants ORDER BY tenant_id")
    return tuple(codec.decode_tenant(data) for (data,) in rows)


def queues(connection: sqlite3.Connection) -> tuple[TenantQueue, ...]:
    rows = connection.execute("SELECT data FROM queues ORDER BY tenant_id, name")
    return tuple(codec.decode_queue(data) for (data,) in rows)


def all_usage(connection: sqlite3.Connection) -> dict[tuple[TenantId, str], GpuTimeUsage]:
    rows = connection.execute(
        "SELECT tenant_id, queue, sum(gpu_millis_ms), sum(completed), sum(failed), sum(cancelled)"
        " FROM usage GROUP BY tenant_id, queue ORDER BY tenant_id, queue"
    )
    return {(TenantId(tenant_id), queue): GpuTimeUsage(*used) for tenant_id, queue, *used in rows}


def nodes(connection: sqlite3.Connection) -> tuple[Node, ...]:
    rows = connection.execute("SELECT data FROM nodes ORDER BY node_id")
    return tuple(codec.decode_node(data) for (data,) in rows)


def live(
    connection: sqlite3.Connection, states: Sequence[JobState], values: codec.SharedValues
) -> tuple[tuple[Job, Progress], ...]:
    rows = connection.execute(
        "SELECT number, job_id, tenant_id, submitted_at, facts, progress, nonce FROM jobs"
        f" WHERE state IN ({', '.join('?' * len(states))})",
        [state.value for state in states],
    )
    # Row by row, so that the texts of a million jobs are never in memory together.
    found = [
        (
            number,
            values.job(job_id, tenant_id, submitted_at, facts, nonce),
            values.progress(progress),
        )
        for number, job_id, tenant_id, submitted_at, facts, progress, nonce in rows
    ]
    # By state they come from the index; SQLite would put whole rows in order.
    found.sort(key=itemgetter(0))
    return tuple((job, progress) for _, job, progress in found)


def over(connection: sqlite3.Connection) -> dict[JobState, int]:
    counts = dict.fromkeys((state for state in JobState if state in TERMINAL), 0)
    for state in counts:  # each count walks its part of an index, never the table
        row = connection.execute("SELECT count(*) FROM jobs WHERE state = ?", (state.value,))
        counts[state] = int(row.fetchone()[0])
    return counts


def last(connection: sqlite3.Connection, column: str, table: str) -> int:
    return int(connection.execute(f"SELECT max({column}) FROM {table}").fetchone()[0] or 0)


def last_decision(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT decision FROM journal ORDER BY seq DESC LIMIT 1").fetchone()
    return 0 if row is None else int(row[0] or 0)


# -- while running -----------------------------------------------------------------------------


def jobs(
    connection: sqlite3.Connection, query: JobQuery, values: codec.SharedValues
) -> list[StoredJob]:
    wanted, parameters = conditions(query)
    where = " AND ".join(["TRUE", *wanted])
    select = f"SELECT * FROM (SELECT {_JOB} FROM jobs WHERE {where}"
    page = "ORDER BY number DESC LIMIT ?)"
    # One walk for each state: the index has the jobs of a state in order, not those of several.
    states = [f"AND state = '{state.value}'" for state in query.states] or [""]
    union = " UNION ALL ".join(f"{select} {state} {page}" for state in states)
    rows = _one(
        connection,
        f"SELECT json_group_array(json_array({_JOB})) FROM ({union})",
        [*parameters, query.limit] * len(states),
    )
    return stored_jobs(sorted(_JOBS.decode(rows), reverse=True)[: query.limit], values)


def count(connection: sqlite3.Connection, query: JobQuery, fold: bool) -> int:
    wanted, parameters = conditions(replace(query, before=None))
    if query.states:
        states = ", ".join(f"'{state.value}'" for state in query.states)
        wanted.append(f"state IN ({states})")
    where = " AND ".join(["TRUE", *wanted])
    rows = COUNT_FOLDED if fold else "count(*)"
    found = connection.execute(f"SELECT {rows} FROM jobs WHERE {where}", parameters).fetchone()
    return int(found[0])


def numbered(
    connection: sqlite3.Connection, numbers: Sequence[int], values: codec.SharedValues
) -> dict[int, StoredJob]:
    rows = _one(
        connection,
        f"SELECT json_group_array(json_array({_JOB})) FROM jobs"
        " WHERE number IN (SELECT value FROM json_each(?))",
        [_ENCODER.encode(numbers).decode()],
    )
    return {stored.number: stored for stored in stored_jobs(_JOBS.decode(rows), values)}


# Plain jobs have no detail, and so nothing in the column.
_OF_USER: Final = "(user = ? OR (user = '' AND instr(facts, ?) > 0))"


def conditions(query: JobQuery) -> tuple[list[str], list[str | int]]:
    ids = _ENCODER.encode(query.job_ids).decode() if query.job_ids else None
    tenants = None if query.tenant_ids is None else _ENCODER.encode(query.tenant_ids).decode()
    optional: list[tuple[str, str | int | None]] = [
        ("tenant_id = ?", query.tenant_id),
        ("tenant_id IN (SELECT value FROM json_each(?))", tenants),
        ("instr(name, ?) > 0", query.name_contains or None),
        ("job_id IN (SELECT value FROM json_each(?))", ids),
        ("array_id = ?", query.array_id),
        ("number < ?", query.before),
    ]
    wanted = [(condition, value) for condition, value in optional if value is not None]
    found, values = [condition for condition, _ in wanted], [value for _, value in wanted]
    if query.user:
        found.append(_OF_USER)
        values += [query.user, codec.user_in_facts(query.user)]
    if query.own_only:
        hidden = "tenant_id IN (SELECT value FROM json_each(?))"
        found.append(f"NOT ({hidden} AND NOT {_OF_USER if query.own_user else 'FALSE'})")
        values.append(_ENCODER.encode(query.own_only).decode())
        values += [query.own_user, codec.user_in_facts(query.own_user)] if query.own_user else []
    return found, values


def known(connection: sqlite3.Connection, job_ids: Sequence[JobId]) -> set[JobId]:
    rows = _one(
        connection,
        "SELECT json_group_array(job_id) FROM jobs"
        " WHERE job_id IN (SELECT value FROM json_each(?))",
        [_ENCODER.encode(job_ids).decode()],
    )
    return _IDS.decode(rows)


def reruns(connection: sqlite3.Connection, job_ids: Sequence[JobId]) -> dict[JobId, str]:
    rows = _one(
        connection,
        "SELECT json_group_array(json_array(number, rerun_of, again)) FROM (SELECT number,"
        " json_extract(detail, '$.rerun_of') AS rerun_of, coalesce(array_id, job_id) AS again"
        " FROM jobs WHERE instr(detail, '\"rerun_of\":') > 0 AND json_extract(detail, '$.rerun_of')"
        " IN (SELECT value FROM json_each(?)))",
        [_ENCODER.encode(job_ids).decode()],
    )
    return {old: again for _, old, again in sorted(_RERUNS.decode(rows))}


def environment(connection: sqlite3.Connection, env_id: str) -> dict[str, str]:
    row = connection.execute("SELECT data FROM environments WHERE env_id = ?", (env_id,)).fetchone()
    return {} if row is None else codec.decode_environment(row[0])


def journal(connection: sqlite3.Connection, after: int, limit: int) -> list[JournalRow]:
    return _events(connection, "seq > ?", [after, limit])


def journal_of(
    connection: sqlite3.Connection, job_id: JobId, after: int, limit: int
) -> list[JournalRow]:
    """The rows about one job; its part of a bulk submission as a row of its own."""
    submission = _submission_in_bulk(connection, job_id, after)
    rows = _events(connection, "job_id = ? AND seq > ?", [job_id, after, limit])
    return [*submission, *rows][:limit]


def _submission_in_bulk(
    connection: sqlite3.Connection, job_id: JobId, after: int
) -> list[JournalRow]:
    row = connection.execute(
        f"SELECT {', '.join('jobs.' + column for column in _JOB.split(', '))}, seq, at, payload,"
        " decision, decided_by"
        " FROM jobs JOIN journal ON seq = submit_seq AND journal.job_id IS NULL"
        " WHERE jobs.job_id = ? AND seq > ?",
        (job_id, after),
    ).fetchone()
    if row is None:
        return []
    *of_job, seq, at, bulk, number, by = row
    _, _, tenant_id, submitted_at, facts, detail_text, name, user, _, nonce = of_job
    values = codec.SharedValues()
    job = values.job(job_id, tenant_id, submitted_at, facts, nonce)
    detail = values.detail(detail_text, name, user)
    held = [job_id] if job_id in event_codec.decode_held(bulk) else []
    text = event_codec.submission_text(
        at, [event_codec.submitted_job_text(job, facts, detail, detail_text)], held
    )
    return [JournalRow(seq, at, "jobs_submitted", job_id, text.encode(), decision_id(number, by))]


def documents(connection: sqlite3.Connection, kind: str) -> dict[str, bytes]:
    # Row by row: there are few, and JSON holds no bytes.
    return dict(connection.execute("SELECT name, body FROM documents WHERE kind = ?", (kind,)))


def usage(
    connection: sqlite3.Connection, since_day: int, tenant_id: TenantId | None
) -> list[DailyUsage]:
    rows = _one(
        connection,
        f"SELECT json_group_array(json_array({_USAGE})) FROM usage"
        " WHERE day >= ?1 AND (?2 IS NULL OR tenant_id = ?2)",
        [since_day, tenant_id],
    )
    return [
        DailyUsage(day, tenant, queue, GpuTimeUsage(*used))
        for day, tenant, queue, *used in sorted(_USAGES.decode(rows))
    ]


def audit(
    connection: sqlite3.Connection, before: int | None, limit: int, tenant_id: TenantId | None
) -> list[AuditRow]:
    optional = [("seq < ?", before), ("tenant_id = ?", tenant_id)]
    wanted = [(condition, value) for condition, value in optional if value is not None]
    where = " AND ".join(["TRUE", *(condition for condition, _ in wanted)])
    rows = _one(
        connection,
        f"SELECT json_group_array(json_array({_AUDIT})) FROM"
        f" (SELECT {_AUDIT} FROM audit WHERE {where} ORDER BY seq DESC LIMIT ?)",
        [*(value for _, value in wanted), limit],
    )
    found = [AuditRow(*row) for row in _AUDITS.decode(rows)]
    return sorted(found, key=lambda row: row.seq, reverse=True)


def _events(
    connection: sqlite3.Connection, where: str, parameters: list[str | int]
) -> list[JournalRow]:
    rows = _one(
        connection,
        f"SELECT json_group_array(json_array({_EVENT})) FROM"
        f" (SELECT {_EVENT} FROM journal WHERE {where} ORDER BY seq LIMIT ?)",
        parameters,
    )
    return [
        JournalRow(seq, at, kind, job_id, payload.encode(), decision_id(number, by))
        for seq, at, kind, job_id, payload, number, by in sorted(
            _EVENTS.decode(rows), key=lambda row: row[0]
        )
    ]


def _one(connection: sqlite3.Connection, sql: str, parameters: Sequence[str | int | None]) -> str:
    return str(connection.execute(sql, parameters).fetchone()[0])
