"""Fixtures of real servers: one of each for a session (and xdist worker), started when first asked.

Where a server cannot be had its tests are skipped, with the reason in the summary.
"""

from collections.abc import Iterator

import pytest

from tests.servers.postgres import PostgresServer
from tests.servers.process import CannotStart
from tests.servers.redis import RedisServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Shared: take a database or a schema of your own. To stop or break one, `own_postgres`."""
    yield from _started_postgres()


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server for this test alone, which may stop it."""
    yield from _started_postgres()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """Of a new, empty database."""
    return postgres_server.url(postgres_server.new_database())


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    try:
        server = RedisServer()
        server.start()
    except CannotStart as error:
        pytest.skip(str(error))
    yield server
    server.remove()


@pytest.fixture
def redis_server(shared_redis: RedisServer) -> RedisServer:
    """Empty, and started again if the test before stopped it."""
    shared_redis.start_if_down()
    shared_redis.command("FLUSHALL")
    return shared_redis


def _started_postgres() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer()
        try:
            server.create()
            server.start()
        except BaseException:
            server.remove()
            raise
    except CannotStart as error:
        pytest.skip(str(error))
    yield server
    server.remove()
