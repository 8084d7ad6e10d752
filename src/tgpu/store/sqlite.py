"""The store of one machine: SQLite, with one thread that writes and one that reads."""

import gc
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import TERMINAL, JobState, Progress
from tgpu.store import codec, sqlite_folded, sqlite_read
from tgpu.store.api import (
    AuditRow,
    DailyUsage,
    FoldedJob,
    JobQuery,
    JournalRow,
    LoadedState,
    Record,
    StoredJob,
    StoreUnavailable,
)
from tgpu.store.rows import Last, rows_of
from tgpu.store.schema import migrate, migrations
from tgpu.store.sqlite_file import (
    OpenFile,
    check_sqlite,
    connect,
    may_be_full,
    prepare,
    take_lock,
    unavailable,
)
from tgpu.store.sqlite_write import write
from tgpu.store.thread import CLOSE_SECONDS, OPEN_SECONDS, READ_SECONDS, StoreThread

T = TypeVar("T")

_LIVE: Final = tuple(state for state in JobState if state not in TERMINAL)


class SqliteStore:
    """Commits wait for one another, reads for one another; a read never waits for a commit."""

    is_durable = True

    def __init__(
        self, path: Path, *, busy_seconds: float = 5.0, read_seconds: float = READ_SECONDS
    ) -> None:
        """`read_seconds` are what a read may take; a commit takes what it takes: see `Store`."""
        self.path = path
        self.name = f"SQLite at {path}"
        self._busy_seconds = min(busy_seconds, read_seconds / 2)
        self._read_seconds = read_seconds
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._write_thread: StoreThread | None = None
        self._read_thread: StoreThread | None = None
        self._lock: int | None = None
        self._file: OpenFile | None = None
        self._values = codec.SharedValues()  # used by the reading thread only, once open
        self._last = Last()  # changed by the writing thread only
        # Gains some room where the disk is full; called in the writing thread.
        self.make_room: Callable[[], bool] = lambda: False

    async def open(self) -> LoadedState:
        if self._writer is not None:
            raise StoreUnavailable(f"the database {self.path} is open already")
        self._write_thread = StoreThread("store-write", self.name)
        self._read_thread = StoreThread("store-read", self.name, self._interrupt)
        try:
            return await self._in_thread(self._write_thread, self._open, OPEN_SECONDS)
        except BaseException:
            await self.close()
            raise

    async def commit(self, record: Record) -> int:
        return await self._in_thread(self._write_thread, lambda: self._commit(record))

    async def ping(self) -> None:
        await self._in_thread(self._write_thread, self._ping)

    async def job(self, job_id: JobId) -> StoredJob | None:
        found = await self.jobs(JobQuery(job_ids=(job_id,), limit=1))
        return found[0] if found else None

    async def jobs(self, query: JobQuery) -> list[StoredJob]:
        return await self._read(sqlite_read.jobs, query, self._values)

    async def folded(self, query: JobQuery) -> list[FoldedJob]:
        return await self._read(sqlite_folded.folded, query, self._values)

    async def count(self, query: JobQuery, *, fold: bool = False) -> int:
        return await self._read(sqlite_read.count, query, fold)

    async def known(self, job_ids: Sequence[JobId]) -> set[JobId]:
        return await self._read(sqlite_read.known, job_ids)

    async def reruns(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        return await self._read(sqlite_read.reruns, job_ids)

    async def environment(self, env_id: str) -> Mapping[str, str]:
        return await self._read(sqlite_read.environment, env_id)

    async def journal(
        self, after: int, limit: int, job_id: JobId | None = None
    ) -> list[JournalRow]:
        if job_id is None:
            return await self._read(sqlite_read.journal, after, limit)
        return await self._read(sqlite_read.journal_of, job_id, after, limit)

    async def documents(self, kind: str) -> Mapping[str, bytes]:
        return await self._read(sqlite_read.documents, kind)

    async def usage(self, since_day: int, tenant_id: TenantId | None = None) -> list[DailyUsage]:
        return await self._read(sqlite_read.usage, since_day, tenant_id)

    async def audit(
        self, *, before: int | None = None, limit: int = 100, tenant_id: TenantId | None = None
    ) -> list[AuditRow]:
        return await self._read(sqlite_read.audit, before, limit, tenant_id)

    async def close(self) -> None:
        """Ends what is under way first, unless that hangs. Closing twice is fine."""
        threads = (
            (self._read_thread, self._close_reader),
            (self._write_thread, self._close_writer),
        )
        self._read_thread = self._write_thread = None
        for thread, shut in threads:
            if thread is not None:
                with suppress(StoreUnavailable):
                    await thread.call(shut, CLOSE_SECONDS)
                thread.end()

    # -- in the threads ----------------------------------------------------------------------

    def _open(self) -> LoadedState:
        try:
            return self._open_once()
        except (sqlite3.Error, StoreUnavailable) as error:
            if not (may_be_full(error) and self.make_room()):
                raise
            self._close_reader()
            self._close_writer()
            return self._open_once()

    def _open_once(self) -> LoadedState:
        check_sqlite()
        prepare(self.path)
        self._lock = take_lock(self.path)
        self._writer = connect(self.path, self._busy_seconds)
        self._file = OpenFile(self.path)
        migrate(self._writer, self.path, migrations())
        self._reader = connect(self.path, self._busy_seconds)
        self._reader.execute("PRAGMA query_only = ON")
        loaded = self._load(self._writer)
        audit = sqlite_read.last(self._writer, "seq", "audit")
        self._last = Last(loaded.last_seq, loaded.last_number, audit)
        return loaded

    def _load(self, connection: sqlite3.Connection) -> LoadedState:
        # The collector would walk through a million new objects again and again, and find nothing.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return LoadedState(
                tenants=sqlite_read.tenants(connection),
                queues=sqlite_read.queues(connection),
                nodes=sqlite_read.nodes(connection),
                usage=sqlite_read.all_usage(connection),
                live=self._load_live(connection),
                over=sqlite_read.over(connection),
                last_seq=sqlite_read.last(connection, "seq", "journal"),
                last_number=sqlite_read.last(connection, "number", "jobs"),
                last_decision=sqlite_read.last_decision(connection),
            )
        finally:
            if collecting:
                gc.enable()

    def _load_live(self, connection: sqlite3.Connection) -> tuple[tuple[Job, Progress], ...]:
        return sqlite_read.live(connection, _LIVE, codec.SharedValues())

    def _commit(self, record: Record) -> int:
        assert self._writer is not None
        rows = rows_of(record, self._last)
        if not rows.is_empty():
            self._check_file()
            try:
                write(self._writer, rows)
            except sqlite3.Error as error:
                if not (may_be_full(error) and self.make_room()):
                    raise
                write(self._writer, rows)
            self._last = rows.last
        return self._last.seq

    def _ping(self) -> None:
        """Whether somebody else holds the file. That the disk takes writes only a write shows."""
        assert self._writer is not None
        self._check_file()
        self._writer.execute("BEGIN IMMEDIATE")
        self._writer.execute("ROLLBACK")

    def _check_file(self) -> None:
        """A file that was removed takes writes, too; what was acknowledged then would be lost."""
        assert self._file is not None
        self._file.check()

    def _interrupt(self) -> None:
        """From another thread: a query that takes too long stops working for nobody."""
        reader = self._reader
        if reader is not None:
            with suppress(sqlite3.Error):
                reader.interrupt()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _close_writer(self) -> None:
        if self._writer is not None:
            with suppress(sqlite3.Error):  # a full disk: the log is written back at the next start
                self._writer.close()
            self._writer = None
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # -- getting there -----------------------------------------------------------------------

    async def _read(self, function: Callable[..., T], *arguments: object) -> T:
        def work() -> T:
            return function(self._reader, *arguments)

        return await self._in_thread(self._read_thread, work, self._read_seconds)

    async def _in_thread(
        self, thread: StoreThread | None, work: Callable[[], T], seconds: float | None = None
    ) -> T:
        if thread is None:
            raise StoreUnavailable(f"the database {self.path} is not open")
        try:
            return await thread.call(work, seconds)
        except sqlite3.Error as error:
            raise unavailable(self.path, error) from error
