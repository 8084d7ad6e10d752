"""Writes the rows of one commit to SQLite, in one transaction.

Python's sqlite3 gives up the interpreter lock at every step of a statement. With `executemany` a
bulk of 10,000 rows does so 10,000 times, and beside a busy event loop each time waits for a thread
switch (5 ms): measured, 600 rows/s. Statements of many rows at once step once: 80,000 rows/s.
"""

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Final

from gpu_scheduler.core.errors import Duplicate, InvariantBroken
from gpu_scheduler.store.rows import JOB_COLUMNS, JOURNAL_COLUMNS, Rows, Value

# SQLite takes 32,766 parameters in a statement; a job has 12.
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
_SET_TENANTS: Final = f"INSERT OR REPLACE INTO tenants (tenant_id, data) VALUES {_ROWS}"
_SET_NODES: Final = f"INSERT OR REPLACE INTO nodes (node_id, data) VALUES {_ROWS}"
# An id stands for its content, so the one that is there is the same.
_ADD_ENVIRONMENTS: Final = f"INSERT OR IGNORE INTO environments (env_id, data) VALUES {_ROWS}"


def write(connection: sqlite3.Connection, rows: Rows) -> None:
    """All of it, durably, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        _execute(connection, _ADD_ENVIRONMENTS, 2, rows.environments)
        _execute(connection, _INSERT_JOURNAL, len(JOURNAL_COLUMNS), rows.journal)
        _insert_jobs(connection, rows)
        _execute(connection, _SET_TENANTS, 2, rows.tenants)
        _execute(connection, _SET_NODES, 2, rows.nodes)
        _move_jobs(connection, rows)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself has rolled back after some errors
            connection.execute("ROLLBACK")
        raise


def _insert_jobs(connection: sqlite3.Connection, rows: Rows) -> None:
    try:
        _execute(connection, _INSERT_JOBS, len(JOB_COLUMNS), rows.jobs)
    except sqlite3.IntegrityError as error:
        taken = _first_known(connection, rows)
        if taken is None:
            raise
        raise Duplicate(taken) from error


def _first_known(connection: sqlite3.Connection, rows: Rows) -> str | None:
    """The first id of the batch that is there already, or is in the batch twice."""
    connection.execute("ROLLBACK")
    seen: set[Value] = set()
    for job_id in rows.jobs[1 :: len(JOB_COLUMNS)]:
        found = connection.execute("SELECT 1 FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        if found or job_id in seen:
            return str(job_id)
        seen.add(job_id)
    return None


def _move_jobs(connection: sqlite3.Connection, rows: Rows) -> None:
    moves = list(chain.from_iterable(rows.moves.values()))
    if _execute(connection, _MOVE_JOBS, 4, moves) == len(rows.moves):
        return
    connection.execute("ROLLBACK")
    for job_id in rows.moves:
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
