import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tgpu.store.api import StoreUnavailable
from tgpu.store.schema import Migration, migrate, migrations, schema_version
from tgpu.store.sqlite_read import journal, last_decision

PATH = Path("tgpu.db")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


def test_the_scripts_come_with_the_package_and_have_no_gaps() -> None:
    versions = [migration.version for migration in migrations()]
    assert versions == list(range(1, len(versions) + 1))
    assert versions


def test_an_empty_database_gets_the_newest_schema(connection: sqlite3.Connection) -> None:
    migrate(connection, PATH, migrations())
    assert schema_version(connection, PATH) == migrations()[-1].version


def test_only_newer_scripts_are_applied(connection: sqlite3.Connection) -> None:
    migrate(connection, PATH, migrations())
    newest = migrations()[-1].version
    script = Migration(newest + 1, "ALTER TABLE jobs ADD COLUMN colour TEXT;")
    for _ in range(2):  # the second time there is nothing left to do
        migrate(connection, PATH, [*migrations(), script])
    assert schema_version(connection, PATH) == newest + 1
    connection.execute("SELECT colour FROM jobs")


def test_a_script_that_fails_changes_nothing(connection: sqlite3.Connection) -> None:
    migrate(connection, PATH, migrations())
    newest = migrations()[-1].version
    broken = Migration(newest + 1, "ALTER TABLE jobs ADD COLUMN colour TEXT; SELECT nonsense;")
    with pytest.raises(sqlite3.OperationalError, match="nonsense"):
        migrate(connection, PATH, [*migrations(), broken])
    connection.execute("ROLLBACK")
    assert schema_version(connection, PATH) == newest
    with pytest.raises(sqlite3.OperationalError, match="colour"):
        connection.execute("SELECT colour FROM jobs")


def test_a_newer_database_is_refused(connection: sqlite3.Connection) -> None:
    migrate(connection, PATH, migrations())
    connection.execute("UPDATE meta SET value = '7777' WHERE key = 'schema_version'")
    with pytest.raises(StoreUnavailable, match=r"tgpu\.db has schema version 7777.*up to"):
        migrate(connection, PATH, migrations())


def test_a_database_of_the_first_version_keeps_what_it_has(connection: sqlite3.Connection) -> None:
    migrate(connection, PATH, migrations()[:1])
    connection.execute("INSERT INTO tenants VALUES ('t', '{\"tenant_id\":\"t\"}')")
    migrate(connection, PATH, migrations())
    assert connection.execute("SELECT tenant_id FROM tenants").fetchall() == [("t",)]
    assert connection.execute("SELECT count(*) FROM queues").fetchone() == (0,)


def test_events_of_a_database_from_before_decisions_have_none(
    connection: sqlite3.Connection,
) -> None:
    migrate(connection, PATH, [one for one in migrations() if one.version < 6])
    connection.execute("INSERT INTO journal VALUES (1, 5, 'tenant_set', NULL, '{}')")
    migrate(connection, PATH, migrations())
    (row,) = journal(connection, 0, 10)
    assert row.decision is None
    assert last_decision(connection) == 0
