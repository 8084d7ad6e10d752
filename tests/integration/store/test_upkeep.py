"""Status, upgrade and copy of whole databases."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.store.builders import (
    a_job,
    audited,
    cancelled,
    completed,
    running,
    started,
    submission,
    submitted,
)
from tests.servers.postgres import PostgresServer
from tgpu.core.errors import Conflict
from tgpu.core.model.events import NodeSet, QueueSet, TenantSet, UsageAdded
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Array, Detail
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.store.address import Address, PostgresAddress, SqliteAddress
from tgpu.store.api import Decider, DecisionId, JobQuery, Record, Store, StoreUnavailable
from tgpu.store.postgres_connect import Server
from tgpu.store.postgres_schema import SCRIPTS
from tgpu.store.postgres_schema import migrate as migrate_postgres
from tgpu.store.rows import Value
from tgpu.store.schema import migrate, migrations
from tgpu.store.tables import StoreTable
from tgpu.store.upkeep import copy, rewrite, status, store_at, upgrade

T1 = TenantId("t1")
ODD = 'nul \0 quote " tab \t line \n backslash \\N \U0001f680 \ufdd0'


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteAddress:
    return SqliteAddress(tmp_path / "data" / "tgpu.db")


@pytest.fixture
def postgres(postgres_url: str) -> PostgresAddress:
    return PostgresAddress(postgres_url)


def quiet(table: str, done: int, total: int) -> None:
    """No progress is shown."""


async def fill(address: Address) -> None:
    """At least one row in every table, and characters that are hard to copy."""
    store = store_at(address)
    await store.open()
    details = {JobId("a"): Detail(name=ODD, user="ada", argv=(ODD,), env_id="e")}
    bulk = [a_job(f"bulk-{n}", array=Array("arr", n)) for n in range(7000)]
    await store.commit(Record([submitted(a_job("a"))], details, {"e": {"A": ODD}}))
    await store.commit(
        Record([submitted(*bulk, held=("bulk-7",))], decisions=[DecisionId(1, Decider.COMMAND)])
    )
    await store.commit(Record([started("a"), cancelled("bulk-3")]))
    await store.commit(Record([running("a")]))
    await store.commit(Record([completed("a")]))
    await store.commit(
        Record(
            [
                TenantSet(1, Tenant(T1, max_gpu_millis=2000, name=ODD)),
                QueueSet(1, TenantQueue(T1, ODD, 7)),
                NodeSet(1, Node(NodeId("n"), (Gpu(0, "GPU-0", "A100", 81920),), 1000, 1024)),
                UsageAdded(5, T1, "default", GpuTimeUsage(10**15, 1, 2, 3)),
            ],
            documents={("key", "ci"): b"\0\xff\\", ("note", ODD): b""},
            audit=[replace(audited(1), decision=1, request_id=ODD), audited(2, None)],
        )
    )
    await store.close()


async def contents(store: Store) -> tuple:
    loaded = await store.open()
    try:
        return (
            loaded,
            await store.jobs(JobQuery(limit=100_000)),
            await store.journal(0, 100_000),
            await store.journal(0, 10, JobId("bulk-7")),
            await store.usage(0),
            await store.audit(),
            [dict(await store.documents(kind)) for kind in ("key", "note")],
            await store.environment("e"),
        )
    finally:
        await store.close()


# -- copy --------------------------------------------------------------------------------------


@pytest.mark.external
async def test_a_copy_holds_everything_and_the_service_goes_on_there(
    sqlite: SqliteAddress, postgres: PostgresAddress
) -> None:
    await fill(sqlite)
    seen: list[tuple[str, int, int]] = []
    counts = copy(sqlite, postgres, lambda *step: seen.append(step))
    assert counts["jobs"] == 7001
    assert min(counts.values()) > 0
    assert ("jobs", 0, 7001) in seen
    assert ("jobs", 7001, 7001) in seen
    there = store_at(postgres)
    assert await contents(there) == await contents(store_at(sqlite))
    await there.open()
    assert await there.commit(submission("new")) == counts["journal"] + 1
    await there.commit(Record([], audit=[audited(3)]))
    assert [row.seq for row in await there.audit()] == [3, 2, 1]
    await there.close()


@pytest.mark.external
async def test_a_copy_and_its_copy_back_are_the_same(
    sqlite: SqliteAddress, postgres: PostgresAddress, tmp_path: Path
) -> None:
    await fill(sqlite)
    copy(sqlite, postgres, quiet)
    back = SqliteAddress(tmp_path / "back.db")
    copy(postgres, back, quiet)
    assert await contents(store_at(back)) == await contents(store_at(sqlite))


@pytest.mark.external
async def test_a_target_that_is_not_empty_is_refused(
    sqlite: SqliteAddress, postgres: PostgresAddress
) -> None:
    await fill(sqlite)
    there = store_at(postgres)
    await there.open()
    await there.commit(submission("mine"))
    await there.close()
    with pytest.raises(Conflict, match=r"is not empty \(1 row in journal\): name an empty"):
        copy(sqlite, postgres, quiet)
    assert status(postgres).counts["jobs"] == 1


@pytest.mark.external
@pytest.mark.parametrize("busy", ["source", "target"])
async def test_a_database_with_a_service_on_it_is_not_copied(
    sqlite: SqliteAddress, postgres: PostgresAddress, busy: str
) -> None:
    await fill(sqlite)
    store = store_at(sqlite if busy == "source" else postgres)
    await store.open()
    with pytest.raises(StoreUnavailable, match="in use by another service"):
        copy(sqlite, postgres, quiet)
    await store.close()


@pytest.mark.external
async def test_a_copy_that_fails_in_its_midst_leaves_the_target_empty(
    sqlite: SqliteAddress, postgres: PostgresAddress, postgres_server: PostgresServer
) -> None:
    await fill(sqlite)
    upgrade(postgres)
    database = postgres.url.rpartition("/")[2]
    postgres_server.execute("ALTER TABLE jobs ADD CHECK (number < 6000)", database)
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        copy(sqlite, postgres, quiet)
    assert set(status(postgres).counts.values()) == {0}


def test_a_database_is_not_copied_onto_itself(sqlite: SqliteAddress) -> None:
    with pytest.raises(Conflict, match="the same database"):
        copy(sqlite, sqlite, quiet)


def test_a_source_that_is_not_there_is_named(sqlite: SqliteAddress, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"there is no database .*tgpu\.db"):
        copy(sqlite, SqliteAddress(tmp_path / "new.db"), quiet)
    assert not sqlite.path.exists()


async def test_a_source_of_an_older_version_is_upgraded_first(
    sqlite: SqliteAddress, tmp_path: Path
) -> None:
    make_old(sqlite.path)
    with pytest.raises(Conflict, match="run `tgpu db upgrade` on it first"):
        copy(sqlite, SqliteAddress(tmp_path / "new.db"), quiet)
    upgrade(sqlite)
    assert copy(sqlite, SqliteAddress(tmp_path / "new.db"), quiet)["tenants"] == 1


# -- status and upgrade ------------------------------------------------------------------------


def make_old(path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, path, migrations()[:1])
    connection.execute("INSERT INTO tenants VALUES ('t', '{\"tenant_id\":\"t\"}')")
    connection.close()


@pytest.mark.external
async def test_a_postgres_database_from_before_decisions_is_opened(
    postgres: PostgresAddress,
) -> None:
    server = Server(postgres.url, postgres.schema)
    connection = server.connect(writes=True)
    migrate_postgres(connection, server, [one for one in migrations(SCRIPTS) if one.version < 5])
    connection.execute("INSERT INTO journal VALUES (1, 5, 'tenant_set', NULL, '{}')")
    connection.close()
    store = store_at(postgres)
    loaded = await store.open()
    (row,) = await store.journal(0, 10)
    await store.close()
    assert (row.seq, row.decision) == (1, None)
    assert (loaded.last_seq, loaded.last_decision) == (1, 0)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.external)])
def address(request: pytest.FixtureRequest) -> Address:
    found: Address = request.getfixturevalue(request.param)
    return found


async def test_the_status_counts_also_while_a_service_writes(address: Address) -> None:
    store = store_at(address)
    await store.open()
    await store.commit(submission("a", "b"))
    found = status(address)
    await store.close()
    assert found.name == store.name
    assert found.version == found.newest
    assert (found.counts["jobs"], found.counts["journal"], found.counts["audit"]) == (2, 1, 0)
    assert found.size_bytes > 4096


async def test_an_upgrade_makes_the_tables_once(address: Address) -> None:
    done = upgrade(address)
    assert (done.before, done.after) == (0, status(address).newest)
    again = upgrade(address)
    assert again.before == again.after == done.after


async def test_an_upgrade_is_refused_while_a_service_runs(address: Address) -> None:
    store = store_at(address)
    await store.open()
    with pytest.raises(StoreUnavailable, match="in use by another service"):
        upgrade(address)
    await store.close()


def test_an_older_database_is_counted_after_its_upgrade(sqlite: SqliteAddress) -> None:
    make_old(sqlite.path)
    assert (status(sqlite).version, status(sqlite).counts) == (1, {})
    assert upgrade(sqlite).before == 1
    assert status(sqlite).counts["tenants"] == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_rows_are_changed_in_place_all_or_none(
    kind: str, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue(kind)
    await fill(address)

    def louder(table: StoreTable, row: tuple[Value, ...]) -> tuple[Value, ...]:
        if table.name != "tenants":
            return row
        return row[0], str(row[1]).replace("quote", "QUOTE")

    assert rewrite(address, louder, {("key", "ci"): b"new", ("key", "other"): b"\0"}) == 1
    store = store_at(address)
    loaded = await store.open()
    assert ODD.replace("quote", "QUOTE") in [tenant.name for tenant in loaded.tenants]
    assert await store.documents("key") == {"ci": b"new", "other": b"\0"}
    await store.close()

    def failing(table: StoreTable, row: tuple[Value, ...]) -> tuple[Value, ...]:
        if table.name == "journal":
            raise Conflict("not this one")
        return louder(table, (row[0], *row[1:-1], row[-1]))

    with pytest.raises(Conflict):
        rewrite(address, failing, {("key", "ci"): b"lost"})
    store = store_at(address)
    await store.open()
    assert (await store.documents("key"))["ci"] == b"new"
    await store.close()
