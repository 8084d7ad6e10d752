"""What is read from PostgreSQL. A whole answer arrives at once and is taken apart in C."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, cast

from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import TERMINAL, JobState, Progress
from tgpu.core.model.node import Node
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.store import codec, event_codec
from tgpu.store.api import AuditRow, DailyUsage, JobQuery, JournalRow, StoredJob, decision_id
from tgpu.store.folding import COUNT_FOLDED
from tgpu.store.job_rows import JobRow, stored_jobs
from tgpu.store.postgres_connect import Connection
from tgpu.store.postgres_text import from_text, from_values, to_text
from tgpu.store.rows import Value

_JOB: Final = (
    'number, job_id, tenant_id, submitted_at, facts, detail, name, "user", progress, nonce'
)
_EVENT: Final = "seq, at, kind, job_id, payload, decision, decided_by"
_RERUN_OF: Final = 'substring(detail FROM \'"rerun_of":"([^"]*)"\')'
_USAGE: Final = "day, tenant_id, queue, gpu_millis_ms, completed, failed, cancelled"
_AUDIT: Final = (
    "at, actor, action, target, tenant_id, origin, outcome, detail, seq, decision, request_id"
)
_AuditRow = tuple[int, str, str, str, TenantId | None, str, str, str, int, int | None, str | None]

# Rows of the load that are in memory as texts at the same time.
_LOAD_ROWS: Final = 20_000


# -- at start ----------------------------------------------------------------------------------


def tenants(connection: Connection) -> tuple[Tenant, ...]:
    rows = _texts(connection, "SELECT data FROM tenants ORDER BY tenant_id")
    return tuple(codec.decode_tenant(text) for text in rows)


def queues(connection: Connection) -> tuple[TenantQueue, ...]:
    rows = _texts(connection, "SELECT data FROM queues ORDER BY tenant_id, name")
    return tuple(codec.decode_queue(text) for text in rows)


def nodes(connection: Connection) -> tuple[Node, ...]:
    rows = _texts(connection, "SELECT data FROM nodes ORDER BY node_id")
    return tuple(codec.decode_node(text) for text in rows)


def all_usage(connection: Connection) -> dict[tuple[TenantId, str], GpuTimeUsage]:
    rows = _rows(
        connection,
        "SELECT tenant_id, queue, sum(gpu_millis_ms)::bigint, sum(completed)::bigint,"
        " sum(failed)::bigint, sum(cancelled)::bigint"
        " FROM usage GROUP BY tenant_id, queue ORDER BY tenant_id, queue",
    )
    return {
        (TenantId(str(tenant_id)), str(queue)): GpuTimeUsage(*cast(list[int], used))
        for tenant_id, queue, *used in rows
    }


def live(
    connection: Connection, states: Sequence[JobState], values: codec.SharedValues
) -> tuple[tuple[Job, Progress], ...]:
    found = []
    with connection.transaction(), connection.cursor("live_jobs") as cursor:
        cursor.itersize = _LOAD_ROWS
        cursor.execute(
            "SELECT job_id, tenant_id, submitted_at, facts, progress, nonce FROM jobs"
            " WHERE state = ANY(%s) ORDER BY number",
            ([state.value for state in states],),
        )
        for row in cursor:
            job_id, tenant_id, submitted_at, facts, progress, nonce = cast(
                tuple[str, str, int, str, str, str], row
            )
            job = values.job(
                from_text(job_id), from_text(tenant_id), submitted_at, from_text(facts), nonce
            )
            found.append((job, values.progress(from_text(progress))))
    return tuple(found)


def over(connection: Connection) -> dict[JobState, int]:
    counts = dict.fromkeys((state for state in JobState if state in TERMINAL), 0)
    rows = connection.execute(
        "SELECT state, count(*) FROM jobs WHERE state = ANY(%s) GROUP BY state",
        ([state.value for state in counts],),
    )
    for state, count in cast(list[tuple[str, int]], rows.fetchall()):
        counts[JobState(state)] = count
    return counts


def last(connection: Connection, column: str, table: str) -> int:
    row = connection.execute(f"SELECT coalesce(max({column}), 0) FROM {table}".encode()).fetchone()
    assert row is not None
    return cast(int, row[0])


def last_decision(connection: Connection) -> int:
    row = connection.execute("SELECT decision FROM journal ORDER BY seq DESC LIMIT 1").fetchone()
    return 0 if row is None else cast(int | None, row[0]) or 0


# -- while running -----------------------------------------------------------------------------


def jobs(connection: Connection, query: JobQuery, values: codec.SharedValues) -> list[StoredJob]:
    wanted, parameters = conditions(query)
    where = " AND ".join(["TRUE", *wanted])
    # One walk for each state: the index has the jobs of a state in order, not those of several.
    states = [f"AND state = '{state.value}'" for state in query.states] or [""]
    union = " UNION ALL ".join(
        f"(SELECT {_JOB} FROM jobs WHERE {where} {state} ORDER BY number DESC LIMIT %s)"
        for state in states
    )
    rows = _rows(
        connection,
        f"SELECT * FROM ({union}) AS found ORDER BY number DESC LIMIT %s",
        [*[*parameters, query.limit] * len(states), query.limit],
    )
    return stored_jobs(cast(list[JobRow], rows), values)


def count(connection: Connection, query: JobQuery, fold: bool) -> int:
    wanted, parameters = conditions(replace(query, before=None))
    if query.states:
        wanted.append("state = ANY(%s)")
        parameters.append([state.value for state in query.states])
    where = " AND ".join(["TRUE", *wanted])
    rows = COUNT_FOLDED if fold else "count(*)"
    found = _rows(connection, f"SELECT {rows} FROM jobs WHERE {where}", parameters)
    return cast(int, found[0][0])


def numbered(
    connection: Connection, numbers: Sequence[int], values: codec.SharedValues
) -> dict[int, StoredJob]:
    rows = _rows(connection, f"SELECT {_JOB} FROM jobs WHERE number = ANY(%s)", [list(numbers)])
    return {stored.number: stored for stored in stored_jobs(cast(list[JobRow], rows), values)}


# Plain jobs have no detail, and so nothing in the column.
_OF_USER: Final = """("user" = %s OR ("user" = '' AND strpos(facts, %s) > 0))"""


def conditions(query: JobQuery) -> tuple[list[str], list[object]]:
    ids = [to_text(job_id) for job_id in query.job_ids] or None
    tenants = None if query.tenant_ids is None else [to_text(name) for name in query.tenant_ids]
    optional: list[tuple[str, str | int | list[str] | None]] = [
        ("tenant_id = %s", query.tenant_id),
        ("tenant_id = ANY(%s)", tenants),
        ("strpos(name, %s) > 0", query.name_contains or None),
        ("job_id = ANY(%s)", ids),
        ("array_id = %s", query.array_id),
        ("number < %s", query.before),
    ]
    wanted = [(condition, value) for condition, value in optional if value is not None]
    found = [condition for condition, _ in wanted]
    values: list[str | int | list[str]] = [value for _, value in wanted]
    if query.user:
        found.append(_OF_USER)
        values += [query.user, codec.user_in_facts(query.user)]
    if query.own_only:
        of_user = _OF_USER if query.own_user else "FALSE"
        found.append(f"NOT (tenant_id = ANY(%s) AND NOT {of_user})")
        values.append([to_text(name) for name in query.own_only])
        values += [query.own_user, codec.user_in_facts(query.own_user)] if query.own_user else []
    return found, [to_text(value) if isinstance(value, str) else value for value in values]


def known(connection: Connection, job_ids: Sequence[JobId]) -> set[JobId]:
    rows = connection.execute(
        "SELECT job_id FROM jobs WHERE job_id = ANY(%s)", ([to_text(each) for each in job_ids],)
    )
    return {JobId(from_text(str(job_id))) for (job_id,) in rows.fetchall()}


def reruns(connection: Connection, job_ids: Sequence[JobId]) -> dict[JobId, str]:
    rows = _rows(
        connection,
        f"SELECT {_RERUN_OF}, coalesce(array_id, job_id) FROM jobs"
        f" WHERE position('\"rerun_of\":' IN detail) > 0 AND {_RERUN_OF} = ANY(%s)"
        " ORDER BY number",
        [[to_text(job_id) for job_id in job_ids]],
    )
    return {JobId(old): again for old, again in cast(list[tuple[str, str]], rows)}


def environment(connection: Connection, env_id: str) -> dict[str, str]:
    rows = _texts(connection, "SELECT data FROM environments WHERE env_id = %s", [to_text(env_id)])
    return codec.decode_environment(rows[0]) if rows else {}


def journal(connection: Connection, after: int, limit: int) -> list[JournalRow]:
    return _events(connection, "seq > %s", [after, limit])


def journal_of(connection: Connection, job_id: JobId, after: int, limit: int) -> list[JournalRow]:
    """The rows about one job; its part of a bulk submission as a row of its own."""
    submission = _submission_in_bulk(connection, job_id, after)
    rows = _events(connection, "job_id = %s AND seq > %s", [to_text(job_id), after, limit])
    return [*submission, *rows][:limit]


def _submission_in_bulk(connection: Connection, job_id: JobId, after: int) -> list[JournalRow]:
    rows = _rows(
        connection,
        f"SELECT {', '.join('jobs.' + column for column in _JOB.split(', '))}, seq, at, payload,"
        " decision, decided_by"
        " FROM jobs JOIN journal ON seq = submit_seq AND journal.job_id IS NULL"
        " WHERE jobs.job_id = %s AND seq > %s",
        [to_text(job_id), after],
    )
    if not rows:
        return []
    *of_job, seq, at, bulk, number, by = rows[0]
    _, _, tenant_id, submitted_at, facts, detail_text, name, user, _, nonce = cast(JobRow, of_job)
    decision = decision_id(cast(int | None, number), cast(str | None, by))
    values = codec.SharedValues()
    job = values.job(job_id, tenant_id, submitted_at, facts, nonce)
    detail = values.detail(detail_text, name, user)
    held = [job_id] if job_id in event_codec.decode_held(str(bulk)) else []
    seq, at = cast(int, seq), cast(int, at)
    text = event_codec.submission_text(
        at, [event_codec.submitted_job_text(job, facts, detail, detail_text)], held
    )
    return [JournalRow(seq, at, "jobs_submitted", job_id, text.encode(), decision)]


def documents(connection: Connection, kind: str) -> dict[str, bytes]:
    rows = connection.execute(
        "SELECT name, body FROM documents WHERE kind = %s", (to_text(kind),), binary=True
    )
    return {from_text(name): body for name, body in cast(list[tuple[str, bytes]], rows.fetchall())}


def usage(connection: Connection, since_day: int, tenant_id: TenantId | None) -> list[DailyUsage]:
    tenant = None if tenant_id is None else to_text(tenant_id)
    rows = _rows(
        connection,
        f"SELECT {_USAGE} FROM usage"
        " WHERE day >= %s AND (%s::text IS NULL OR tenant_id = %s)"
        " ORDER BY day, tenant_id, queue",
        [since_day, tenant, tenant],
    )
    return [
        DailyUsage(day, TenantId(tenant_id), queue, GpuTimeUsage(*used))
        for day, tenant_id, queue, *used in cast(
            list[tuple[int, str, str, int, int, int, int]], rows
        )
    ]


def audit(
    connection: Connection, before: int | None, limit: int, tenant_id: TenantId | None
) -> list[AuditRow]:
    tenant = None if tenant_id is None else to_text(tenant_id)
    optional: list[tuple[str, str | int | None]] = [
        ("seq < %s", before),
        ("tenant_id = %s", tenant),
    ]
    wanted = [(condition, value) for condition, value in optional if value is not None]
    where = " AND ".join(["TRUE", *(condition for condition, _ in wanted)])
    rows = _rows(
        connection,
        f"SELECT {_AUDIT} FROM audit WHERE {where} ORDER BY seq DESC LIMIT %s",
        [*(value for _, value in wanted), limit],
    )
    return [AuditRow(*cast(_AuditRow, row)) for row in rows]


def _events(connection: Connection, where: str, parameters: list[object]) -> list[JournalRow]:
    rows = _rows(
        connection,
        f"SELECT {_EVENT} FROM journal WHERE {where} ORDER BY seq LIMIT %s",
        parameters,
    )
    return [
        JournalRow(seq, at, kind, job_id, payload.encode(), decision_id(number, by))
        for seq, at, kind, job_id, payload, number, by in cast(
            list[tuple[int, int, str, JobId | None, str, int | None, str | None]], rows
        )
    ]


def _texts(connection: Connection, sql: str, parameters: Sequence[object] = ()) -> list[str]:
    return [str(row[0]) for row in _rows(connection, sql, parameters)]


def _rows(connection: Connection, sql: str, parameters: Sequence[object] = ()) -> list[list[Value]]:
    rows = connection.execute(sql.encode(), parameters or None).fetchall()
    return [from_values(cast(tuple[Value, ...], row)) for row in rows]
