"""The tables of a SQLite database row by row, for upkeep: beside a service, or without one."""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from tgpu.store.api import StoreUnavailable
from tgpu.store.rows import Value
from tgpu.store.schema import migrate, migrations, schema_version
from tgpu.store.sqlite_file import check_sqlite, connect, prepare, take_lock, unavailable
from tgpu.store.tables import StoreTable

_BATCH_ROWS = 5_000


class SqliteTables:
    """Open one with `look` or `own`; every error is a StoreUnavailable."""

    newest = migrations()[-1].version

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: int | None) -> None:
        self.name = f"SQLite at {path}"
        self._path = path
        self._connection = connection
        self._lock = lock

    @classmethod
    def look(cls, path: Path) -> "SqliteTables":
        """Only to read, also while a service writes."""
        check_sqlite()
        if not path.exists():
            raise StoreUnavailable(f"there is no database {path}: check the path")
        try:
            uri = f"{path.absolute().as_uri()}?mode=ro"
            return cls(path, sqlite3.connect(uri, uri=True, isolation_level=None), None)
        except sqlite3.Error as error:
            raise unavailable(path, error) from error

    @classmethod
    def own(cls, path: Path, *, is_new_fine: bool) -> "SqliteTables":
        """Ours alone, until closed. A service that runs on it is a reason to refuse."""
        check_sqlite()
        if not is_new_fine and not path.exists():
            raise StoreUnavailable(f"there is no database {path}: check the path")
        prepare(path)
        lock = take_lock(path)
        try:
            return cls(path, connect(path, 5.0), lock)
        except BaseException as error:
            os.close(lock)
            if isinstance(error, sqlite3.Error):
                raise unavailable(path, error) from error
            raise

    def version(self) -> int:
        try:
            return schema_version(self._connection, self._path)
        except sqlite3.Error as error:
            raise unavailable(self._path, error) from error

    def upgrade(self) -> None:
        try:
            migrate(self._connection, self._path, migrations())
        except sqlite3.Error as error:
            raise unavailable(self._path, error) from error

    def count(self, table: StoreTable) -> int:
        return int(self._execute(f"SELECT count(*) FROM {table.name}").fetchone()[0])

    def size_bytes(self) -> int:
        files = (self._path, self._path.with_name(self._path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def rows(self, table: StoreTable) -> Iterator[list[tuple[Value, ...]]]:
        """All rows in batches, in the order of the key."""
        sql = f"SELECT {table.column_list} FROM {table.name} ORDER BY {table.key_list}"
        cursor = self._execute(sql)
        while batch := cursor.fetchmany(_BATCH_ROWS):
            yield batch

    def begin(self) -> None:
        self._execute("BEGIN IMMEDIATE")

    def add(self, table: StoreTable, batches: Iterable[list[tuple[Value, ...]]]) -> None:
        marks = ", ".join("?" * len(table.columns))
        sql = f"INSERT INTO {table.name} ({table.column_list}) VALUES ({marks})"
        try:
            for batch in batches:
                self._connection.executemany(sql, batch)
        except sqlite3.Error as error:
            raise unavailable(self._path, error) from error

    def update(self, table: StoreTable, rows: list[tuple[Value, ...]]) -> None:
        """Whole rows in the place of those with the same key."""
        names = ", ".join(f'"{column}" = ?' for column in table.columns)
        key = " AND ".join(f'"{column}" = ?' for column in table.key)
        places = [table.columns.index(column) for column in table.key]
        sql = f"UPDATE {table.name} SET {names} WHERE {key}"
        values = ((*row, *(row[place] for place in places)) for row in rows)
        try:
            self._connection.executemany(sql, values)
        except sqlite3.Error as error:
            raise unavailable(self._path, error) from error

    def commit(self) -> None:
        self._execute("COMMIT")

    def close(self) -> None:
        """What was begun and not committed is undone."""
        self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _execute(self, sql: str) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql)
        except sqlite3.Error as error:
            raise unavailable(self._path, error) from error
