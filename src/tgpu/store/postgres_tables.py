"""The tables of a PostgreSQL database row by row, for upkeep: beside a service, or without one."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import cast

import psycopg

from tgpu.store.postgres_connect import Connection, Server
from tgpu.store.postgres_schema import SCRIPTS, migrate, schema_version
from tgpu.store.postgres_text import from_values, to_values
from tgpu.store.rows import Value
from tgpu.store.schema import migrations
from tgpu.store.tables import StoreTable

_BATCH_ROWS = 5_000


class PostgresTables:
    """Open one with `look` or `own`; every error is a StoreUnavailable."""

    newest = migrations(SCRIPTS)[-1].version

    def __init__(self, server: Server, connection: Connection) -> None:
        self.name = server.name
        self._server = server
        self._connection = connection

    @classmethod
    def look(cls, url: str, schema: str) -> "PostgresTables":
        """Only to read, also while a service writes."""
        server = Server(url, schema)
        return cls(server, server.connect(writes=False))

    @classmethod
    def own(cls, url: str, schema: str) -> "PostgresTables":
        """Ours alone, until closed. A service that runs on it is a reason to refuse."""
        server = Server(url, schema)
        tables = cls(server, server.connect(writes=True))
        try:
            with tables._translated():
                server.take_lock(tables._connection)
        except BaseException:
            tables.close()
            raise
        return tables

    def version(self) -> int:
        with self._translated():
            return schema_version(self._connection, self._server)

    def upgrade(self) -> None:
        with self._translated():
            migrate(self._connection, self._server)

    def count(self, table: StoreTable) -> int:
        return self._number(f"SELECT count(*) FROM {table.name}")

    def size_bytes(self) -> int:
        """Of our tables with their indexes; there may be others in the database."""
        return self._number(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )

    def rows(self, table: StoreTable) -> Iterator[list[tuple[Value, ...]]]:
        """All rows in batches, in the order of the key."""
        sql = f"SELECT {table.column_list} FROM {table.name} ORDER BY {table.key_list}"
        with (
            self._translated(),
            self._connection.transaction(),
            self._connection.cursor("all_rows") as cursor,
        ):
            cursor.execute(sql.encode())
            while batch := cursor.fetchmany(_BATCH_ROWS):
                yield [tuple(from_values(cast(tuple[Value, ...], row))) for row in batch]

    def begin(self) -> None:
        with self._translated():
            self._connection.execute("BEGIN")

    def add(self, table: StoreTable, batches: Iterable[list[tuple[Value, ...]]]) -> None:
        sql = f"COPY {table.name} ({table.column_list}) FROM STDIN"
        with (
            self._translated(),
            self._connection.cursor() as cursor,
            cursor.copy(sql.encode()) as copy,
        ):
            for batch in batches:
                for row in batch:
                    copy.write_row(to_values(row))

    def update(self, table: StoreTable, rows: list[tuple[Value, ...]]) -> None:
        """Whole rows in the place of those with the same key."""
        names = ", ".join(f'"{column}" = %s' for column in table.columns)
        key = " AND ".join(f'"{column}" = %s' for column in table.key)
        places = [table.columns.index(column) for column in table.key]
        sql = f"UPDATE {table.name} SET {names} WHERE {key}"
        values = [to_values((*row, *(row[place] for place in places))) for row in rows]
        if values:
            with self._translated(), self._connection.cursor() as cursor:
                cursor.executemany(sql.encode(), values)

    def commit(self) -> None:
        with self._translated():
            self._connection.commit()
            # The server plans badly for tables that it last saw empty.
            self._connection.execute("ANALYZE")

    def close(self) -> None:
        """What was begun and not committed is undone."""
        self._connection.close()

    def _number(self, sql: str) -> int:
        with self._translated():
            row = self._connection.execute(sql.encode()).fetchone()
        assert row is not None
        return cast(int, row[0])

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._server.unavailable(error, is_lost=self._connection.closed) from error
