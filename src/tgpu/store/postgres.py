"""The store of a team: PostgreSQL, with one thread that writes and one that reads.

The connection that writes holds an advisory lock, so a second service is refused. Every commit
also moves a mark on in `meta`: it tells whether a commit went through whose answer was lost with
the connection, and it stops a writer that has lost the lock without knowing.
"""

import math
import secrets
import time
from collections.abc import Callable
from typing import Final, TypeVar

import psycopg

from tgpu.store import postgres_folded, postgres_read
from tgpu.store.api import (
    LoadedState,
    Record,
    StoreChanged,
    StoreUnavailable,
)
from tgpu.store.postgres_connect import Connection, Server, cut
from tgpu.store.postgres_schema import migrate
from tgpu.store.postgres_write import Fenced, OutcomeUnknown, write
from tgpu.store.rows import FlatRows, Last, rows_of
from tgpu.store.thread import OPEN_SECONDS, READ_SECONDS, StoreThread
from tgpu.store.threaded import ThreadedStore

T = TypeVar("T")

_SETTLE_EVERY_SECONDS: Final = 0.5
_TAKE_SECONDS: Final = 30.0  # to connect and become the writer


class PostgresStore(ThreadedStore):
    def __init__(
        self,
        url: str,
        *,
        schema: str = "public",
        settle_seconds: float = math.inf,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        """`settle_seconds`: how long a commit tries to learn what became of it when the connection
        was lost in its midst. `read_seconds` are what a read may take.
        """
        self._server = Server(url, schema)
        name = self._server.name
        super().__init__(name, name, postgres_read, postgres_folded.folded)
        self._settle_seconds = settle_seconds
        self._read_seconds = read_seconds
        self._is_closing = False
        self._writer: Connection | None = None
        self._reader: Connection | None = None
        self._last = Last()  # changed by the writing thread only, like the two below
        self._session = ""
        self._commits = 0

    async def open(self) -> LoadedState:
        if self._write_thread is not None:
            raise StoreUnavailable(f"{self.name} is open already")
        self._is_closing = False
        self._write_thread = StoreThread("store-write", self.name)
        self._read_thread = StoreThread("store-read", self.name, self._cut_reader)
        try:
            await self._in_thread(self._write_thread, self._take, _TAKE_SECONDS)
            return await self._in_thread(self._write_thread, self._open, OPEN_SECONDS)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self._is_closing = True
        await super().close()

    # -- opening -----------------------------------------------------------------------------

    def _take(self) -> None:
        connection = self._writer = self._server.connect(writes=True)
        with self._translated(connection):
            self._server.take_lock(connection)

    def _open(self) -> LoadedState:
        connection = self._writer
        assert connection is not None
        with self._translated(connection):
            migrate(connection, self._server)
            self._session, self._commits = secrets.token_hex(8), 0
            connection.execute(
                "INSERT INTO meta (key, value) VALUES ('writer', %s)"
                " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (self._mark(),),
            )
            loaded = self._load(connection)
            audit = postgres_read.last(connection, "seq", "audit")
        self._last = Last(loaded.last_seq, loaded.last_number, audit)
        return loaded

    def _mark(self, ahead: int = 0) -> str:
        return f"{self._session}:{self._commits + ahead}"

    # -- writing -----------------------------------------------------------------------------

    def _commit(self, record: Record) -> int:
        rows = rows_of(record, self._last)
        if not rows.is_empty():
            self._write_or_settle(rows)
            self._last = rows.last
            self._commits += 1
        return self._last.seq

    def _write_or_settle(self, rows: FlatRows) -> None:
        # A connection that was idle while the server restarted is found dead only now, and
        # deserves a second attempt; a new one does not.
        attempts = 1 if self._writer is None else 2
        while True:
            attempts -= 1
            try:
                return self._write(rows)
            except OutcomeUnknown as error:
                if self._settle():
                    return None
                lost = _Lost(f"the connection to {self.name} was lost: check the server")
                lost.__cause__ = error
            except _Lost as error:
                lost = error
            if not attempts:
                raise lost

    def _ping(self) -> None:
        """Whether we are still the writer; a connection that was lost is replaced unseen."""
        was_open = self._writer is not None
        try:
            self._look_at_mark()
        except _Lost:
            if not was_open:
                raise
            self._look_at_mark()

    def _look_at_mark(self) -> None:
        connection = self._connected()
        with self._translated(connection):
            row = connection.execute("SELECT value FROM meta WHERE key = 'writer'").fetchone()
        if row is None or row[0] != self._mark():
            raise self._fenced()

    def _write(self, rows: FlatRows) -> None:
        connection = self._connected()
        try:
            with self._translated(connection):
                write(connection, rows, self._mark(), self._mark(1))
        except OutcomeUnknown:
            self._close_writer()
            raise
        except Fenced:
            raise self._fenced() from None

    def _connected(self) -> Connection:
        """The connection that writes; a new one where it was lost and we are still the writer."""
        if self._writer is not None and self._writer.closed:
            self._close_writer()
        if self._writer is None:
            if self._found_mark() != self._mark():
                self._close_writer()
                raise self._fenced()
            assert self._writer is not None
        return self._writer

    def _found_mark(self) -> str:
        """Connect, become the writer again, and read the mark."""
        connection = self._writer = self._server.connect(writes=True)
        try:
            with self._translated(connection):
                self._refuse_if_replaced(connection)
                self._server.take_lock(connection)
                # FOR UPDATE waits for a commit of ours that the server is still busy with.
                row = connection.execute(
                    "SELECT value FROM meta WHERE key = 'writer' FOR UPDATE"
                ).fetchone()
        except StoreUnavailable:
            self._close_writer()
            raise
        return "" if row is None else str(row[0])

    def _refuse_if_replaced(self, connection: Connection) -> None:
        """Whoever holds the lock by now: with another one's mark we are not the writer for good."""
        row = connection.execute("SELECT value FROM meta WHERE key = 'writer'").fetchone()
        if row is None or not str(row[0]).startswith(f"{self._session}:"):
            raise self._fenced()

    def _settle(self) -> bool:
        """Whether the commit whose answer was lost went through."""
        deadline = time.monotonic() + self._settle_seconds
        while True:
            try:
                found = self._found_mark()
                break
            except StoreChanged:
                raise
            except StoreUnavailable as error:
                # Never reported as failed and found recorded later: the service would then
                # decide on less than what is true. `_connected` refuses to go on in that case.
                if self._is_closing or time.monotonic() > deadline:
                    raise StoreUnavailable(str(error), is_outcome_known=False) from error
                time.sleep(_SETTLE_EVERY_SECONDS)
        if found not in (self._mark(), self._mark(1)):
            self._close_writer()
            raise self._fenced()
        return found == self._mark(1)

    def _fenced(self) -> StoreChanged:
        return StoreChanged(
            f"{self.name} has changes that this service does not know of, from another service or"
            " from a commit that was cut off: restart this service, so that it reads them"
        )

    # -- reading -----------------------------------------------------------------------------

    async def _read(self, function: Callable[..., T], *arguments: object) -> T:
        def work() -> T:
            return self._read_again(function, *arguments)

        return await self._in_thread(self._read_thread, work, self._read_seconds)

    def _read_again(self, function: Callable[..., T], *arguments: object) -> T:
        """Reading twice harms nobody: a connection that was lost is replaced unseen."""
        was_open = self._reader is not None
        try:
            return self._read_once(function, *arguments)
        except _Lost:
            self._close_reader()
            if not was_open:
                raise
            return self._read_once(function, *arguments)

    def _read_once(self, function: Callable[..., T], *arguments: object) -> T:
        if self._reader is None:
            self._reader = self._server.connect(writes=False)
        with self._translated(self._reader):
            return function(self._reader, *arguments)

    # -- getting there -----------------------------------------------------------------------

    def _translated(self, connection: Connection) -> "_Translated":
        return _Translated(self._server, connection)

    def _cut_reader(self) -> None:
        """From another thread: whoever reads from a server that hangs finds the connection lost."""
        reader = self._reader
        if reader is not None:
            cut(reader)

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class _Lost(StoreUnavailable):
    """The connection broke before anything was recorded."""


class _Translated:
    """Turns psycopg's errors into sentences."""

    def __init__(self, server: Server, connection: Connection) -> None:
        self._server = server
        self._connection = connection

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, psycopg.Error):
            is_lost = self._connection.closed
            sentence = self._server.unavailable(error, is_lost=is_lost)
            raise (_Lost(str(sentence)) if is_lost else sentence) from error
