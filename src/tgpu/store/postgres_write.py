"""Writes the rows of one commit to PostgreSQL, in one transaction.

Many rows go by COPY, which is the fastest way in; few go as one JSON text a table, all of them in
one round trip to the server (a pipeline), because a commit of one job should not wait for ten.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec
import psycopg
from psycopg import errors

from tgpu.core.errors import Duplicate, InvariantBroken
from tgpu.core.model.ids import JobId
from tgpu.store.postgres_connect import Connection
from tgpu.store.postgres_text import from_text, to_text, to_values
from tgpu.store.rows import (
    AUDIT_COLUMNS,
    JOB_COLUMNS,
    JOURNAL_COLUMNS,
    USAGE_COLUMNS,
    FlatRows,
    Value,
    usage_values,
)
from tgpu.store.tables import NUMBERS, quoted

# From here on COPY is faster, its round trips included (measured through a socket: 60 rows).
_COPY_FROM_ROWS: Final = 64

_ENCODER: Final = msgspec.json.Encoder()

Cursor = psycopg.Cursor[tuple[object, ...]]


def _record(columns: tuple[str, ...]) -> str:
    """The columns with types, for json_to_recordset."""
    typed = (
        f'"{column}" ' + ("bigint" if column in NUMBERS else 'text COLLATE "C"')
        for column in columns
    )
    return f"json_to_recordset(%s::json) AS new ({', '.join(typed)})"


def _insert(table: str, columns: tuple[str, ...], then: str = "") -> bytes:
    names = quoted(columns)
    return f"INSERT INTO {table} ({names}) SELECT {names} FROM {_record(columns)} {then}".encode()


_MOVE_COLUMNS: Final = ("job_id", "state", "ended_at", "progress")
_INSERT_JOURNAL: Final = _insert("journal", JOURNAL_COLUMNS)
_INSERT_JOBS: Final = _insert("jobs", JOB_COLUMNS)
_INSERT_AUDIT: Final = _insert("audit", AUDIT_COLUMNS)
_COPY_JOURNAL: Final = f"COPY journal ({quoted(JOURNAL_COLUMNS)}) FROM STDIN".encode()
_COPY_JOBS: Final = f"COPY jobs ({quoted(JOB_COLUMNS)}) FROM STDIN".encode()
_COPY_AUDIT: Final = f"COPY audit ({quoted(AUDIT_COLUMNS)}) FROM STDIN".encode()
# A job that is over stays as it is: whoever moves it has lost track.
_MOVE_JOBS: Final = (
    "UPDATE jobs SET state = new.state, ended_at = new.ended_at, progress = new.progress"
    f" FROM {_record(_MOVE_COLUMNS)} WHERE jobs.job_id = new.job_id AND jobs.ended_at IS NULL"
).encode()
_AGE_JOBS: Final = b"UPDATE jobs SET submitted_at = submitted_at + %s WHERE ended_at IS NULL"
_CHANGE_JOBS: Final = (
    f"UPDATE jobs SET facts = new.facts FROM {_record(('job_id', 'facts'))}"
    " WHERE jobs.job_id = new.job_id AND jobs.ended_at IS NULL"
).encode()
_NAME_JOBS: Final = (
    f"UPDATE jobs SET name = new.name FROM {_record(('job_id', 'name'))}"
    " WHERE jobs.job_id = new.job_id AND jobs.ended_at IS NULL"
).encode()
# An id stands for its content, so the one that is there is the same.
_ADD_ENVIRONMENTS: Final = _insert("environments", ("env_id", "data"), "ON CONFLICT DO NOTHING")
_SET_TENANTS: Final = _insert(
    "tenants", ("tenant_id", "data"), "ON CONFLICT (tenant_id) DO UPDATE SET data = excluded.data"
)
_SET_NODES: Final = _insert(
    "nodes", ("node_id", "data"), "ON CONFLICT (node_id) DO UPDATE SET data = excluded.data"
)
_SET_QUEUES: Final = _insert(
    "queues",
    ("tenant_id", "name", "data"),
    "ON CONFLICT (tenant_id, name) DO UPDATE SET data = excluded.data",
)
_ADD_USAGE: Final = _insert(
    "usage",
    USAGE_COLUMNS,
    "ON CONFLICT (day, tenant_id, queue) DO UPDATE SET "
    + ", ".join(f"{column} = usage.{column} + excluded.{column}" for column in USAGE_COLUMNS[3:]),
)


class Fenced(Exception):
    """Somebody else has written since: this writer knows less than the tables."""


class OutcomeUnknown(Exception):
    """The connection was lost while the server committed. It may have, or not."""


def write(connection: Connection, rows: FlatRows, mark: str, next_mark: str) -> None:
    """All of it, durably, or nothing.

    `mark` is what the last commit left in `meta`, `next_mark` what this one leaves: whoever finds
    another one there is not the only writer, and after a lost connection it tells the outcome.
    """
    try:
        _write(connection, rows, mark, next_mark)
    except psycopg.Error as error:
        _roll_back(connection)
        if isinstance(error, errors.UniqueViolation) and error.diag.table_name == "jobs":
            taken = _first_known(connection, rows)
            if taken is not None:
                raise Duplicate(taken) from error
        raise
    except BaseException:
        _roll_back(connection)
        raise
    try:
        connection.commit()
    except psycopg.OperationalError as error:
        if connection.closed:
            raise OutcomeUnknown from error
        raise


def _write(connection: Connection, rows: FlatRows, mark: str, next_mark: str) -> None:
    tables = (
        (_INSERT_JOURNAL, _COPY_JOURNAL, JOURNAL_COLUMNS, rows.journal),
        (_INSERT_JOBS, _COPY_JOBS, JOB_COLUMNS, rows.jobs),
        (_INSERT_AUDIT, _COPY_AUDIT, AUDIT_COLUMNS, rows.audit),
    )
    many = [table for table in tables if len(table[3]) >= _COPY_FROM_ROWS * len(table[2])]
    with connection.pipeline():
        connection.execute("BEGIN")
        fence = connection.execute(
            "UPDATE meta SET value = %s WHERE key = 'writer' AND value = %s", (next_mark, mark)
        )
        _insert_rows(connection, _ADD_ENVIRONMENTS, ("env_id", "data"), rows.environments)
        for table in tables:
            if table not in many:
                insert, _, columns, values = table
                _insert_rows(connection, insert, columns, values)
        changed = None if many else _change(connection, rows)
    if fence.rowcount != 1:
        raise Fenced
    if many:  # which cannot be part of a pipeline, and must come before the moves of its jobs
        for _, copy, columns, values in many:
            _copy_rows(connection, copy, columns, values)
        with connection.pipeline():
            changed = _change(connection, rows)
    for cursor, job_ids in changed or ():
        if cursor is not None and cursor.rowcount != len(job_ids):
            raise _not_moved(connection, job_ids)


def _change(
    connection: Connection, rows: FlatRows
) -> tuple[tuple[Cursor | None, Collection[JobId]], ...]:
    """What was done to which jobs: as many rows as jobs, or some of them are over."""
    if rows.aged_ms:
        connection.execute(_AGE_JOBS, (rows.aged_ms,))
    facts = _flat(rows.changes.values())
    changed = _insert_rows(connection, _CHANGE_JOBS, ("job_id", "facts"), facts)
    _insert_rows(connection, _NAME_JOBS, ("job_id", "name"), _flat(rows.names.values()))
    moved = _insert_rows(connection, _MOVE_JOBS, _MOVE_COLUMNS, _flat(rows.moves.values()))
    _set_the_rest(connection, rows)
    return (changed, rows.changes.keys()), (moved, rows.moves.keys())


def _set_the_rest(connection: Connection, rows: FlatRows) -> None:
    _insert_rows(connection, _SET_TENANTS, ("tenant_id", "data"), _flat(rows.tenants.items()))
    _insert_rows(connection, _SET_NODES, ("node_id", "data"), _flat(rows.nodes.items()))
    used = (usage_values(key, usage) for key, usage in rows.usage.items())
    _insert_rows(connection, _ADD_USAGE, USAGE_COLUMNS, _flat(used))
    queues = ((*key, data) for key, data in rows.queues.items() if data is not None)
    _insert_rows(connection, _SET_QUEUES, ("tenant_id", "name", "data"), _flat(queues))
    for key in _gone(rows.queues):
        connection.execute("DELETE FROM queues WHERE tenant_id = %s AND name = %s", key)
    for (kind, name), body in rows.documents.items():
        if body is not None:
            connection.execute(
                "INSERT INTO documents (kind, name, body) VALUES (%s, %s, %s)"
                " ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body",
                (to_text(kind), to_text(name), body),
            )
    for key in _gone(rows.documents):
        connection.execute("DELETE FROM documents WHERE kind = %s AND name = %s", key)


def _gone(
    entries: Mapping[tuple[str, str], str | None] | Mapping[tuple[str, str], bytes | None],
) -> list[list[Value]]:
    return [to_values(key) for key in entries if entries[key] is None]


def _flat(rows: Iterable[tuple[Value, ...]]) -> list[Value]:
    return list(chain.from_iterable(rows))


def _insert_rows(
    connection: Connection, sql: bytes, columns: tuple[str, ...], values: Sequence[Value]
) -> Cursor | None:
    """Any number of rows as one JSON text, for a statement that takes them from there."""
    if not values:
        return None
    rows = [dict(zip(columns, row, strict=True)) for row in _split(to_values(values), columns)]
    return connection.execute(sql, (_ENCODER.encode(rows).decode(),), prepare=True)


def _copy_rows(
    connection: Connection, sql: bytes, columns: tuple[str, ...], values: Sequence[Value]
) -> None:
    with connection.cursor() as cursor, cursor.copy(sql) as copy:
        for row in _split(to_values(values), columns):
            copy.write_row(row)


def _split(values: list[Value], columns: tuple[str, ...]) -> Iterable[tuple[Value, ...]]:
    each = iter(values)
    return zip(*[each] * len(columns), strict=True)


def _first_known(connection: Connection, rows: FlatRows) -> str | None:
    """The first id of the batch that is there already, or is in the batch twice."""
    job_ids = [str(value) for value in to_values(rows.jobs[1 :: len(JOB_COLUMNS)])]
    found = connection.execute("SELECT job_id FROM jobs WHERE job_id = ANY(%s)", (job_ids,))
    seen = {str(job_id) for (job_id,) in found}
    for job_id in job_ids:
        if job_id in seen:
            return from_text(job_id)
        seen.add(job_id)
    return None


def _not_moved(connection: Connection, job_ids: Collection[JobId]) -> InvariantBroken:
    _roll_back(connection)
    names = [to_text(job_id) for job_id in job_ids]
    found = connection.execute(
        "SELECT job_id FROM jobs WHERE job_id = ANY(%s) AND ended_at IS NULL", (names,)
    )
    live = {job_id for (job_id,) in found}
    for job_id in job_ids:
        if to_text(job_id) not in live:
            return InvariantBroken(f"job {job_id} moved, but it is over or unknown")
    return InvariantBroken("a job moved that was submitted together with another of its id")


def _roll_back(connection: Connection) -> None:
    if not connection.closed:
        connection.rollback()
