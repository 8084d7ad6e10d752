"""Connections to PostgreSQL: how they are set up, who may write, and what can be wrong with them.

No sentence made here holds the password.
"""

import contextlib
import os
import re
import socket
from collections.abc import Mapping
from itertools import chain
from typing import Final

import psycopg
from psycopg import conninfo, errors

from tgpu.store.api import StoreAway, StoreUnavailable

Connection = psycopg.Connection[tuple[object, ...]]

_OLDEST_SERVER: Final = 13
_LOCK_CLASS: Final = 0x74677075  # "tgpu": our part of the advisory locks of a database
# Longer than the server needs to notice that the process that held the lock was killed.
_LOCK_WAIT: Final = "2s"

_DEFAULTS: Final[Mapping[str, str | int]] = {
    "application_name": "tgpu",
    "connect_timeout": 5,
    # A machine that vanished is noticed in half a minute, also where it owes us an answer.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

# A commit looks up few jobs by their id, in a table whose size the server's figures lag behind:
# without this the planner may read whole tables until they are analysed.
_FEW_ROWS: Final = {
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
}

# libpq gives no code for a connection that was refused, only words.
_REFUSALS: Final = (
    (r"password authentication failed|no password supplied|SCRAM", "refused user {user}: "
     "check the user and the password"),
    (r'database ".*" does not exist', "has no database {dbname}: create it with "
     "`createdb {dbname}`, or name another"),
    (r'role ".*" does not exist', "knows no user {user}: create it with `createuser {user}`, or "
     "name another"),
    (r"no pg_hba.conf entry", "does not let user {user} connect from here: add a line to its "
     "pg_hba.conf, or use TLS (sslmode=require)"),
    (r"too many clients|remaining connection slots|too many connections", "has no connection "
     "left: raise its max_connections, or close others"),
    (r"starting up|shutting down|in recovery mode", "is starting or stopping: try again in a "
     "moment"),
    (r"could not translate host name|Name or service not known|[Nn]ame resolution", "is not "
     "known by that name: check the host"),
    (r"SSL|certificate", "could not be reached with TLS as asked: check sslmode and the "
     "certificates"),
    (r"refused|No such file|timeout|timed out|unreachable|No route", "is not reachable: start it, "
     "or check host and port"),
)  # fmt: skip

# What may pass by itself, where somebody starts the service again and again.
_PASSES: Final = (
    r"refused|timeout|timed out|unreachable|No route|starting up|shutting down|in recovery mode"
    r"|too many clients|remaining connection slots|too many connections|name resolution"
)

_FAILURES: Final[tuple[tuple[type[psycopg.Error], str], ...]] = (
    (errors.DiskFull, "cannot be written, the server's disk is full: free some space there"),
    (errors.ReadOnlySqlTransaction, "is read-only (a standby?): name the primary server"),
    (
        errors.InsufficientPrivilege,
        "does not let this user work on its tables: make the user the owner of the schema"
        " (ALTER SCHEMA … OWNER TO …)",
    ),
    (errors.LockNotAvailable, "is locked by another program: end its transaction"),
    (errors.QueryCanceled, "cancelled the command: on request or at a time limit"),
    (errors.UndefinedTable, "has lost its tables: restore a backup"),
)


def cut(connection: Connection) -> None:
    """End it from another thread than the one that waits for its answer."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as copy,
    ):
        copy.shutdown(socket.SHUT_RDWR)


class Server:
    """One database (and schema) on a server: connects to it and speaks of it."""

    def __init__(self, url: str, schema: str) -> None:
        self.schema = schema
        try:
            self._parameters = {**_DEFAULTS, **conninfo.conninfo_to_dict(url)}
        except psycopg.ProgrammingError:
            # Its message would quote the text, and with it the password.
            raise StoreUnavailable(
                "the address of the PostgreSQL database is invalid: write it as "
                "postgresql://user:password@host:5432/database"
            ) from None
        user = self._parameters.get("user") or "of this process"
        self._facts = {"user": user, "dbname": self._parameters.get("dbname") or user}
        self.name = f"PostgreSQL at {self._place()}"

    def _place(self) -> str:
        facts = self._parameters
        host = facts.get("host") or facts.get("hostaddr") or "the default socket"
        port = f":{facts['port']}" if facts.get("port") else ""
        schema = "" if self.schema == "public" else f", schema {self.schema}"
        return f"{host}{port}/{self._facts['dbname']}{schema}"

    def connect(self, *, writes: bool) -> Connection:
        """A connection whose acknowledged commits are on disk, also after a loss of power."""
        try:
            connection = psycopg.connect(
                **self._parameters,  # type: ignore[arg-type]  # its stub wants no other keys
                autocommit=True,
                client_encoding="utf8",
                prepare_threshold=2,
            )
        except psycopg.Error as error:
            raise self._refused(error) from None  # the chain would show the parameters
        try:
            self._set_up(connection, writes)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: Connection, writes: bool) -> None:
        version = connection.info.server_version // 10_000
        if version < _OLDEST_SERVER:
            raise StoreUnavailable(
                f"{self.name} is version {version}, which is too old:"
                f" use PostgreSQL {_OLDEST_SERVER} or newer"
            )
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise StoreUnavailable(
                f"{self.name} keeps its texts as {encoding}: create the database with"
                " ENCODING 'UTF8'"
            )
        settings = {
            "search_path": f'"{self.schema}"',
            "statement_timeout": "0",
            "lock_timeout": "10s",
            # The server lets go of our lock soon after our machine has vanished.
            "tcp_keepalives_idle": "30",
            "tcp_keepalives_interval": "10",
            "tcp_keepalives_count": "3",
            "default_transaction_read_only": "off" if writes else "on",
        }
        if writes:
            settings |= _FEW_ROWS
        # Stronger settings of this one than `on` exist, and are left as they are.
        flush = "CASE current_setting(%s) WHEN 'off' THEN 'on' ELSE current_setting(%s) END"
        each = ", ".join(["set_config(%s, %s, false)"] * len(settings))
        connection.execute(
            f"SELECT set_config(%s, {flush}, false), {each}".encode(),
            [*["synchronous_commit"] * 3, *chain.from_iterable(settings.items())],
        )

    def take_lock(self, connection: Connection) -> None:
        """Held as long as the connection: who cannot write any more does not hold it either."""
        key = (_LOCK_CLASS, self.schema)
        try:
            with connection.transaction():
                connection.execute("SELECT set_config('lock_timeout', %s, true)", (_LOCK_WAIT,))
                connection.execute("SELECT pg_advisory_lock(%s, hashtext(%s))", key)
        except errors.LockNotAvailable as error:
            raise StoreUnavailable(
                f"{self.name} is in use by another service{self._holder(connection)}:"
                " stop that one, or choose another database"
            ) from error

    def _holder(self, connection: Connection) -> str:
        row = connection.execute(
            "SELECT coalesce(host(client_addr), 'a socket'), backend_start::timestamp(0)::text"
            " FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE locktype = 'advisory' AND granted AND classid = %s::bigint::oid"
            " AND objid = (hashtext(%s)::bigint & 4294967295)::oid",
            (_LOCK_CLASS, self.schema),
        ).fetchone()
        return f" (connected from {row[0]} since {row[1]})" if row else ""

    def unavailable(self, error: psycopg.Error, *, is_lost: bool) -> StoreUnavailable:
        """An error after the connection was made, as a sentence."""
        if is_lost:
            return StoreUnavailable(
                f"the connection to {self.name} was lost ({self._first_line(error)}):"
                " check the server; the next attempt connects again"
            )
        for kind, words in _FAILURES:
            if isinstance(error, kind):
                return StoreUnavailable(f"{self.name} {words} ({self._first_line(error)})")
        return StoreUnavailable(f"{self.name} cannot be used ({self._first_line(error)})")

    def _refused(self, error: psycopg.Error) -> StoreUnavailable:
        text = str(error)
        words = "cannot be connected to"
        for pattern, remedy in _REFUSALS:
            if re.search(pattern, text):
                words = remedy.format(**self._facts)
                break
        kind = StoreAway if re.search(_PASSES, text) else StoreUnavailable
        return kind(f"{self.name} {words} ({self._first_line(error)})")

    def _first_line(self, error: psycopg.Error) -> str:
        primary = error.diag.message_primary
        line = primary or str(error).strip().partition("\n")[0]
        password = str(self._parameters.get("password") or "")
        return line.replace(password, "***") if password else line
