"""Work on a whole database without a service: look at it, upgrade it, copy it to another."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Protocol

from tgpu.core.errors import Conflict, InvariantBroken
from tgpu.store.address import Address, PostgresAddress, SqliteAddress
from tgpu.store.api import Store, StoreUnavailable
from tgpu.store.rows import Value
from tgpu.store.sqlite import SqliteStore
from tgpu.store.sqlite_tables import SqliteTables
from tgpu.store.tables import TABLES, StoreTable
from tgpu.store.thread import READ_SECONDS
from tgpu.text.plurals import plural

Batch = list[tuple[Value, ...]]
Progress = Callable[[str, int, int], None]  # table, rows done, rows in all

_NO_DRIVER: Final = "PostgreSQL needs the psycopg driver: pip install 'tgpu[postgres]'"


class Tables(Protocol):
    name: str
    newest: int  # the schema version that this program brings

    def version(self) -> int: ...
    def upgrade(self) -> None: ...
    def count(self, table: StoreTable) -> int: ...
    def size_bytes(self) -> int: ...
    def rows(self, table: StoreTable) -> Iterator[Batch]: ...
    def begin(self) -> None: ...
    def add(self, table: StoreTable, batches: Iterable[Batch]) -> None: ...
    def update(self, table: StoreTable, rows: Batch) -> None: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StoreStatus:
    name: str
    version: int  # 0 where there are no tables yet
    newest: int
    counts: Mapping[str, int]  # rows by table; empty where the version is not the newest
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Upgraded:
    name: str
    before: int
    after: int


def store_at(address: Address, read_seconds: float = READ_SECONDS) -> Store:
    """The store of a service, not open yet."""
    match address:
        case SqliteAddress(path):
            return SqliteStore(path, read_seconds=read_seconds)
        case PostgresAddress(url, schema):
            _check_driver()
            from tgpu.store.postgres import PostgresStore

            return PostgresStore(url, schema=schema, read_seconds=read_seconds)


def status(address: Address) -> StoreStatus:
    """Also while a service runs on it."""
    with closing(_look(address)) as tables:
        version = tables.version()
        is_current = version == tables.newest
        counts = {table.name: tables.count(table) for table in TABLES} if is_current else {}
        return StoreStatus(tables.name, version, tables.newest, counts, tables.size_bytes())


def upgrade(address: Address) -> Upgraded:
    """Bring the tables to the newest version, or make them. Refused while a service runs."""
    with closing(_own(address, is_new_fine=True)) as tables:
        before = tables.version()
        tables.upgrade()
        return Upgraded(tables.name, before, tables.version())


def copy(source: Address, target: Address, progress: Progress) -> dict[str, int]:
    """Copy all rows into an empty database, all or none; how many, by table."""
    if source == target:
        raise Conflict("source and target are the same database: name two")
    with (
        closing(_own(source, is_new_fine=False)) as tables,
        closing(_own(target, is_new_fine=True)) as copied,
    ):
        if tables.version() != tables.newest:
            raise Conflict(
                f"{tables.name} has schema version {tables.version()}, not {tables.newest}: run"
                " `tgpu db upgrade` on it first"
            )
        copied.upgrade()
        _check_empty(copied)
        return _copy_all(tables, copied, progress)


def rewrite(
    address: Address,
    change: Callable[[StoreTable, tuple[Value, ...]], tuple[Value, ...]],
    documents: Mapping[tuple[str, str], bytes],
) -> int:
    """Change rows in place, all or none, and set these documents; how many rows were changed."""
    with closing(_own(address, is_new_fine=False)) as tables:
        if tables.version() != tables.newest:
            raise Conflict(
                f"{tables.name} has schema version {tables.version()}, not {tables.newest}: run"
                " `tgpu db upgrade` on it first"
            )
        tables.begin()
        changed = sum(_rewrite(tables, table, change) for table in TABLES)
        (table,) = (each for each in TABLES if each.name == "documents")
        there = {row[:2] for batch in tables.rows(table) for row in batch}
        rows: Batch = [(*name, body) for name, body in documents.items()]
        tables.update(table, [row for row in rows if row[:2] in there])
        tables.add(table, [[row for row in rows if row[:2] not in there]])
        tables.commit()
        return changed


def _rewrite(
    tables: Tables,
    table: StoreTable,
    change: Callable[[StoreTable, tuple[Value, ...]], tuple[Value, ...]],
) -> int:
    # Read to the end first: a row that is changed while it is looked for may come twice.
    changed = [
        new
        for batch in tables.rows(table)
        for row in batch
        if (new := change(table, tuple(row))) != tuple(row)
    ]
    tables.update(table, changed)
    return len(changed)


def each_row(address: Address, name: str) -> Iterator[tuple[Value, ...]]:
    """All rows of one table in the order of its key, also while a service runs."""
    with closing(_look(address)) as tables:
        if tables.version() != tables.newest:
            raise Conflict(
                f"{tables.name} has schema version {tables.version()}, not {tables.newest}: run"
                " `tgpu db upgrade` on it first"
            )
        (table,) = (table for table in TABLES if table.name == name)
        for batch in tables.rows(table):
            yield from batch


def _check_empty(target: Tables) -> None:
    for table in TABLES:
        if count := target.count(table):
            raise Conflict(
                f"{target.name} is not empty ({plural(count, 'row')} in {table.name}): "
                "name an empty database"
            )


def _copy_all(source: Tables, target: Tables, progress: Progress) -> dict[str, int]:
    target.begin()
    counts = {}
    for table in TABLES:
        total = source.count(table)
        progress(table.name, 0, total)
        target.add(table, _watched(source.rows(table), table.name, total, progress))
        counts[table.name] = target.count(table)
        if counts[table.name] != total:
            raise InvariantBroken(
                f"{total} rows in {table.name} became {counts[table.name]}: nothing was copied"
            )
    target.commit()
    return counts


def _watched(
    batches: Iterable[Batch], name: str, total: int, progress: Progress
) -> Iterator[Batch]:
    done = 0
    for batch in batches:
        yield batch
        done += len(batch)
        progress(name, done, total)


def _look(address: Address) -> Tables:
    match address:
        case SqliteAddress(path):
            return SqliteTables.look(path)
        case PostgresAddress(url, schema):
            _check_driver()
            from tgpu.store.postgres_tables import PostgresTables

            return PostgresTables.look(url, schema)


def _own(address: Address, *, is_new_fine: bool) -> Tables:
    match address:
        case SqliteAddress(path):
            return SqliteTables.own(path, is_new_fine=is_new_fine)
        case PostgresAddress(url, schema):
            _check_driver()
            from tgpu.store.postgres_tables import PostgresTables

            return PostgresTables.own(url, schema)


def _check_driver() -> None:
    """The driver is optional, and brings a library of its own that may not load."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise StoreUnavailable(f"{_NO_DRIVER} ({error})") from error
