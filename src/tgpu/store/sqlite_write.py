"""Writes the rows of one commit to SQLite, in one transaction.

Python's sqlite3 gives up the interpreter lock at every step of a statement. With `executemany` a
bulk of 10,000 rows does so 10,000 times, and beside a busy event loop each time waits for a thread
switch (5 ms): measured, 600 rows/s. Statements of many rows at once step once: 80,000 rows/s.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final, NoReturn

from tgpu.core.errors import Duplicate, InvariantBroken
from tgpu.store.api import StoreUnavailable
from tgpu.store.rows import (
    AUDIT_COLUMNS,
    JOB_COLUMNS,
    JOURNAL_COLUMNS,
    USAGE_COLUMNS,
    FlatRows,
    Value,
    usage_values,
)

# SQLite takes 32,766 parameters in a statement; a job has 13.
_MOST_ROWS: Final = 2048

_ROWS: Final = "{rows}"
_INSERT_JOURNAL: Final = f"INSERT INTO journal ({', '.join(JOURNAL_COLUMNS)}) VALUES {_ROWS}"
_INSERT_JOBS: Final = f"INSERT INTO jobs ({', '.join(JOB_COLUMNS)}) VALUES {_ROWS}"
# A job that is over stays as it is: whoever moves it has lost track.
_MOVE_JOBS: Final = (
    "UPDATE jobs SET state = moved.column2, ended_at = moved.column3, progress = moved.column4"
    f" FROM (VALUES {_ROWS}) AS moved"
    " WHERE jobs.job_id = moved.column1 AND jobs.ended_at IS NULL"
)
_AGE_JOBS: Final = "UPDATE jobs SET submitted_at = submitted_at + ? WHERE ended_at IS NULL"
_CHANGE_JOBS: Final = (
    f"UPDATE jobs SET facts = changed.column2 FROM (VALUES {_ROWS}) AS changed"
    " WHERE jobs.job_id = changed.column1 AND jobs.ended_at IS NULL"
)
_NAME_JOBS: Final = (
    f"UPDATE jobs SET name = named.column2 FROM (VALUES {_ROWS}) AS named"
    " WHERE jobs.job_id = named.column1 AND jobs.ended_at IS NULL"
)
_SET_TENANTS: Final = f"INSERT OR REPLACE INTO tenants (tenant_id, data) VALUES {_ROWS}"
_SET_QUEUES: Final = f"INSERT OR REPLACE INTO queues (tenant_id, name, data) VALUES {_ROWS}"
_DELETE_QUEUES: Final = f"DELETE FROM queues WHERE (tenant_id, name) IN (VALUES {_ROWS})"
_ADD_USAGE: Final = (
    f"INSERT INTO usage ({', '.join(USAGE_COLUMNS)}) VALUES {_ROWS}"
    " ON CONFLICT DO UPDATE SET gpu_millis_ms = gpu_millis_ms + excluded.gpu_millis_ms,"
    " completed = completed + excluded.completed, failed = failed + excluded.failed,"
    " cancelled = cancelled + excluded.cancelled"
)
_SET_NODES: Final = f"INSERT OR REPLACE INTO nodes (node_id, data) VALUES {_ROWS}"
# An id stands for its content, so the one that is there is the same.
_ADD_ENVIRONMENTS: Final = f"INSERT OR IGNORE INTO environments (env_id, data) VALUES {_ROWS}"

_SET_DOCUMENTS: Final = f"INSERT OR REPLACE INTO documents (kind, name, body) VALUES {_ROWS}"
_DELETE_DOCUMENTS: Final = f"DELETE FROM documents WHERE (kind, name) IN (VALUES {_ROWS})"
_INSERT_AUDIT: Final = f"INSERT INTO audit ({', '.join(AUDIT_COLUMNS)}) VALUES {_ROWS}"


def write(connection: sqlite3.Connection, rows: FlatRows) -> None:
    """All of it, durably, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        _execute(connection, _ADD_ENVIRONMENTS, 2, rows.environments)
        _execute(connection, _INSERT_JOURNAL, len(JOURNAL_COLUMNS), rows.journal)
        if rows.aged_ms:
            connection.execute(_AGE_JOBS, (rows.aged_ms,))
        _insert_jobs(connection, rows)
        _change_jobs(connection, rows)
        _move_jobs(connection, rows)
        _set_the_rest(connection, rows)
        _commit(connection)
    except BaseException:
        if connection.in_transaction:  # SQLite itself has rolled back after some errors
            connection.execute("ROLLBACK")
        raise


def _commit(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_IOERR_FSYNC:
            raise
        # It is in the log, whole, and a crash now would bring it back.
        raise StoreUnavailable(
            "the disk of the database failed while a commit was flushed, so it is not known "
            "whether it was recorded: check the disk",
            is_outcome_known=False,
        ) from error


def _set_the_rest(connection: sqlite3.Connection, rows: FlatRows) -> None:
    _execute(connection, _SET_TENANTS, 2, _flat(rows.tenants.items()))
    _set_or_delete(connection, _SET_QUEUES, _DELETE_QUEUES, rows.queues)
    used = (usage_values(key, usage) for key, usage in rows.usage.items())
    _execute(connection, _ADD_USAGE, len(USAGE_COLUMNS), _flat(used))
    _execute(connection, _SET_NODES, 2, _flat(rows.nodes.items()))
    _set_or_delete(connection, _SET_DOCUMENTS, _DELETE_DOCUMENTS, rows.documents)
    _execute(connection, _INSERT_AUDIT, len(AUDIT_COLUMNS), rows.audit)


def _set_or_delete(
    connection: sqlite3.Connection,
    set_sql: str,
    delete_sql: str,
    entries: Mapping[tuple[str, str], str | None] | Mapping[tuple[str, str], bytes | None],
) -> None:
    kept = ((*key, value) for key, value in entries.items() if value is not None)
    _execute(connection, set_sql, 3, _flat(kept))
    _execute(connection, delete_sql, 2, _flat(key for key in entries if entries[key] is None))


def _flat(rows: Iterable[tuple[Value, ...]]) -> list[Value]:
    return list(chain.from_iterable(rows))


def _insert_jobs(connection: sqlite3.Connection, rows: FlatRows) -> None:
    try:
        _execute(connection, _INSERT_JOBS, len(JOB_COLUMNS), rows.jobs)
    except sqlite3.IntegrityError as error:
        taken = _first_known(connection, rows)
        if taken is None:
            raise
        raise Duplicate(taken) from error


def _first_known(connection: sqlite3.Connection, rows: FlatRows) -> str | None:
    """The first id of the batch that is there already, or is in the batch twice."""
    connection.execute("ROLLBACK")
    seen: set[Value] = set()
    for job_id in rows.jobs[1 :: len(JOB_COLUMNS)]:
        found = connection.execute("SELECT 1 FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        if found or job_id in seen:
            return str(job_id)
        seen.add(job_id)
    return None


def _change_jobs(connection: sqlite3.Connection, rows: FlatRows) -> None:
    if _execute(connection, _CHANGE_JOBS, 2, _flat(rows.changes.values())) != len(rows.changes):
        _refuse_moves(connection, rows.changes)
    _execute(connection, _NAME_JOBS, 2, _flat(rows.names.values()))


def _move_jobs(connection: sqlite3.Connection, rows: FlatRows) -> None:
    if _execute(connection, _MOVE_JOBS, 4, _flat(rows.moves.values())) != len(rows.moves):
        _refuse_moves(connection, rows.moves)


def _refuse_moves(connection: sqlite3.Connection, job_ids: Iterable[str]) -> NoReturn:
    connection.execute("ROLLBACK")
    for job_id in job_ids:
        live = connection.execute(
            "SELECT 1 FROM jobs WHERE job_id = ? AND ended_at IS NULL", (job_id,)
        )
        if live.fetchone() is None:
            raise InvariantBroken(f"job {job_id} moved, but it is over or unknown")
    raise InvariantBroken("a job moved that was submitted together with another of its id")


def _execute(
    connection: sqlite3.Connection, template: str, width: int, values: Sequence[Value]
) -> int:
    """Run a many-row statement over these rows; how many rows it changed.

    In powers of two, so that a handful of prepared statements serves every number of rows.
    """
    changed = start = 0
    while left := (len(values) - start) // width:
        count = 1 << (min(left, _MOST_ROWS).bit_length() - 1)
        end = start + count * width
        changed += connection.execute(_sql(template, width, count), values[start:end]).rowcount
        start = end
    return changed


@cache
def _sql(template: str, width: int, count: int) -> str:
    row = f"({', '.join('?' * width)})"
    return template.replace(_ROWS, ", ".join([row] * count))
