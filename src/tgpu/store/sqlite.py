"""The store of one machine: SQLite, with one thread that writes and one that reads."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from tgpu.store import sqlite_folded, sqlite_read
from tgpu.store.api import (
    LoadedState,
    Record,
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
from tgpu.store.thread import OPEN_SECONDS, READ_SECONDS, StoreThread
from tgpu.store.threaded import ThreadedStore

T = TypeVar("T")


class SqliteStore(ThreadedStore):
    def __init__(
        self, path: Path, *, busy_seconds: float = 5.0, read_seconds: float = READ_SECONDS
    ) -> None:
        """`read_seconds` are what a read may take; a commit takes what it takes: see `Store`."""
        title = f"the database {path}"
        super().__init__(f"SQLite at {path}", title, sqlite_read, sqlite_folded.folded)
        self.path = path
        self._busy_seconds = min(busy_seconds, read_seconds / 2)
        self._read_seconds = read_seconds
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._lock: int | None = None
        self._file: OpenFile | None = None
        self._last = Last()  # changed by the writing thread only
        # Gains some room where the disk is full; called in the writing thread.
        self.make_room: Callable[[], bool] = lambda: False

    async def open(self) -> LoadedState:
        if self._writer is not None:
            raise StoreUnavailable(f"{self._title} is open already")
        self._write_thread = StoreThread("store-write", self.name)
        self._read_thread = StoreThread("store-read", self.name, self._interrupt)
        try:
            return await self._in_thread(self._write_thread, self._open, OPEN_SECONDS)
        except BaseException:
            await self.close()
            raise

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
        try:
            return await super()._in_thread(thread, work, seconds)
        except sqlite3.Error as error:
            raise unavailable(self.path, error) from error
