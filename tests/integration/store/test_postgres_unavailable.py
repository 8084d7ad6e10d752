"""What can be wrong with a PostgreSQL, what the store then says, and that it goes on afterwards."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.contract.store.builders import started, submission
from tests.servers.cutting_proxy import CuttingProxy, cutting_proxy
from tests.servers.postgres import PostgresServer
from tests.servers.process import free_port
from tgpu.core.model.ids import JobId
from tgpu.store.api import JobQuery, Record, StoreUnavailable
from tgpu.store.postgres import PostgresStore

pytestmark = pytest.mark.external

SECRET = "s3cret-pass"


@asynccontextmanager
async def opened(store: PostgresStore) -> AsyncIterator[PostgresStore]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def refusal_of(url: str, *, schema: str = "public") -> str:
    with pytest.raises(StoreUnavailable) as refused:
        await PostgresStore(url, schema=schema).open()
    chain = f"{refused.value!r} {refused.value.__cause__!r}"
    assert SECRET not in chain
    return refused.value.message


async def ids(store: PostgresStore) -> list[str]:
    return [each.job.job_id for each in await store.jobs(JobQuery())]


# -- opening -----------------------------------------------------------------------------------


async def test_a_server_that_is_down_is_named_with_host_and_port() -> None:
    port = free_port()
    message = await refusal_of(f"postgresql://me:{SECRET}@127.0.0.1:{port}/db")
    assert f"127.0.0.1:{port}/db is not reachable: start it" in message


async def test_a_wrong_password_is_refused_without_showing_it(
    postgres_server: PostgresServer,
) -> None:
    message = await refusal_of(postgres_server.url(password=SECRET))
    assert "refused user postgres: check the user and the password" in message


async def test_a_database_that_is_not_there_is_named(postgres_server: PostgresServer) -> None:
    message = await refusal_of(postgres_server.url("nowhere"))
    assert "has no database nowhere: create it with `createdb nowhere`" in message


async def test_a_host_that_nobody_knows_is_named() -> None:
    message = await refusal_of(f"postgresql://me:{SECRET}@no-such-host.invalid/db")
    assert "no-such-host.invalid/db" in message
    assert "check the host" in message


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@[::1/db",
        f"host=h password '{SECRET}'",
        f"postgresql://me:{SECRET}@h/db?colour={SECRET}",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(StoreUnavailable, match="write it as postgresql://") as refused:
        PostgresStore(url)
    assert SECRET not in repr(refused.value)


def test_the_name_shows_the_place_and_no_password() -> None:
    store = PostgresStore(f"postgresql://me:{SECRET}@db.example:5433/jobs", schema="team")
    assert store.name == "PostgreSQL at db.example:5433/jobs, schema team"


async def test_a_newer_schema_is_refused_with_both_versions(
    postgres_server: PostgresServer,
) -> None:
    database = postgres_server.new_database()
    async with opened(PostgresStore(postgres_server.url(database))):
        pass
    postgres_server.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'", database)
    message = await refusal_of(postgres_server.url(database))
    assert "has schema version 99" in message
    assert "install the newer tgpu" in message


async def test_a_table_of_another_program_is_left_alone(postgres_server: PostgresServer) -> None:
    database = postgres_server.new_database()
    postgres_server.execute("CREATE TABLE jobs (salary int)", database)
    message = await refusal_of(postgres_server.url(database))
    assert "has a table jobs of another program" in message
    assert postgres_server.execute("SELECT count(*) FROM jobs", database) == [(0,)]


async def test_a_database_that_cannot_hold_every_text_is_refused(
    postgres_server: PostgresServer,
) -> None:
    postgres_server.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    message = await refusal_of(postgres_server.url("latin"))
    assert "keeps its texts as LATIN1: create the database with ENCODING 'UTF8'" in message


async def test_a_user_who_may_not_make_tables_is_told_what_to_grant(
    postgres_server: PostgresServer,
) -> None:
    database = postgres_server.new_database()
    postgres_server.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", database)
    postgres_server.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    url = postgres_server.url(database).replace(
        f"postgres:{postgres_server.password}", "guest:guest"
    )
    message = await refusal_of(url)
    assert "does not let this user work on its tables" in message
    assert "OWNER TO" in message


async def test_commits_are_flushed_even_where_the_server_is_told_not_to(
    postgres_server: PostgresServer,
) -> None:
    database = postgres_server.new_database()
    postgres_server.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")
    async with opened(PostgresStore(postgres_server.url(database))) as store:
        assert store._writer is not None
        assert store._writer.execute("SHOW synchronous_commit").fetchone() == ("on",)


# -- one writer --------------------------------------------------------------------------------


async def test_a_second_service_is_refused_and_the_first_goes_on(postgres_url: str) -> None:
    async with opened(PostgresStore(postgres_url)) as first:
        message = await refusal_of(postgres_url)
        assert "is in use by another service (connected from 127.0.0.1 since 2" in message
        await first.commit(submission("a"))
    async with opened(PostgresStore(postgres_url)) as second:
        assert await ids(second) == ["a"]


async def test_services_in_two_schemas_do_not_meet(postgres_url: str) -> None:
    async with (
        opened(PostgresStore(postgres_url, schema="one")) as one,
        opened(PostgresStore(postgres_url, schema="two")) as two,
    ):
        await one.commit(submission("a"))
        assert await ids(two) == []


async def test_a_writer_that_others_have_overtaken_stops(postgres_server: PostgresServer) -> None:
    database = postgres_server.new_database()
    async with opened(PostgresStore(postgres_server.url(database))) as store:
        await store.commit(submission("a"))
        postgres_server.execute("UPDATE meta SET value = 'x:1' WHERE key = 'writer'", database)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="restart this service"):
                await store.commit(submission("b"))
        assert await ids(store) == ["a"]


# -- a server that comes and goes --------------------------------------------------------------


async def test_a_restart_between_two_commits_goes_unnoticed(own_postgres: PostgresServer) -> None:
    async with opened(PostgresStore(own_postgres.url())) as store:
        await store.commit(submission("a"))
        await ids(store)
        own_postgres.restart()
        assert await store.commit(submission("b")) == 2
        assert await ids(store) == ["b", "a"]


async def test_while_the_server_is_down_commits_fail_and_later_they_work(
    own_postgres: PostgresServer,
) -> None:
    async with opened(PostgresStore(own_postgres.url())) as store:
        await store.commit(submission("a"))
        own_postgres.crash()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="not reachable"):
                await store.commit(submission("b"))
            with pytest.raises(StoreUnavailable, match="not reachable"):
                await store.jobs(JobQuery())
        own_postgres.start()
        assert await store.commit(submission("b")) == 2
        assert await store.commit(Record([started("a")])) == 3
        assert await ids(store) == ["b", "a"]


async def test_a_store_whose_server_is_gone_still_closes(own_postgres: PostgresServer) -> None:
    store = PostgresStore(own_postgres.url())
    await store.open()
    own_postgres.stop()
    await store.close()
    await store.close()


def through(proxy: CuttingProxy, server: PostgresServer, database: str = "postgres") -> str:
    return server.url(database).replace(f":{server.port}/", f":{proxy.port}/")


@pytest.mark.parametrize("delivered", [False, True], ids=["before it", "behind it"])
async def test_a_commit_cut_off_in_its_midst_is_recorded_exactly_once(
    postgres_server: PostgresServer, delivered: bool
) -> None:
    database = postgres_server.new_database()
    with cutting_proxy(postgres_server.port) as proxy:
        async with opened(PostgresStore(through(proxy, postgres_server, database))) as store:
            await store.commit(submission("a"))
            proxy.cut_at(b"COMMIT", delivered=delivered)
            assert await store.commit(submission("b")) == 2
            assert proxy.cuts == 1
            assert await store.commit(submission("c")) == 3
            assert await ids(store) == ["c", "b", "a"]
            assert [row.seq for row in await store.journal(0, 10)] == [1, 2, 3]


async def test_a_bulk_cut_off_before_its_end_is_recorded_whole(
    postgres_server: PostgresServer,
) -> None:
    database = postgres_server.new_database()
    with cutting_proxy(postgres_server.port) as proxy:
        async with opened(PostgresStore(through(proxy, postgres_server, database))) as store:
            proxy.cut_at(b"job-700", delivered=True)
            await store.commit(submission(*(f"job-{n}" for n in range(1000))))
            assert proxy.cuts == 1
            assert len(await store.known([JobId(f"job-{n}") for n in range(1000)])) == 1000


async def test_an_unknown_outcome_that_was_recorded_stops_the_writer(
    postgres_server: PostgresServer,
) -> None:
    """Reported as failed, found recorded later: going on would decide on less than is true."""
    database = postgres_server.new_database()
    with cutting_proxy(postgres_server.port) as proxy:
        store = PostgresStore(through(proxy, postgres_server, database), settle_seconds=0.0)
        async with opened(store):
            proxy.cut_at(b"COMMIT", delivered=True)
            proxy.is_refusing = True
            with pytest.raises(StoreUnavailable):
                await store.commit(submission("a"))
            proxy.is_refusing = False
            with pytest.raises(StoreUnavailable, match="restart this service"):
                await store.commit(submission("b"))
        async with opened(PostgresStore(postgres_server.url(database))) as store:
            assert await ids(store) == ["a"]
