"""Two services with different data directories on one PostgreSQL database."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_service import RealService, clean_environ, eventually, is_living
from tests.servers.postgres import PostgresServer


@pytest.fixture
def two(
    tmp_path: Path, postgres_server: PostgresServer
) -> Iterator[tuple[RealService, RealService, str]]:
    name = postgres_server.new_database()
    settings = {"database": {"url": postgres_server.url(name)}}
    with (
        RealService(tmp_path / "a", settings=settings) as first,
        RealService(tmp_path / "b", settings=settings) as second,
    ):
        yield first, second, name


def test_one_that_was_halted_and_replaced_ends_and_launches_nothing(
    two: tuple[RealService, RealService, str], postgres_server: PostgresServer
) -> None:
    first, second, name = two
    first.start()
    long = first.submit("echo long >> runs; sleep 600")
    pid = first.running(long)["pid"]
    held = first.submit("echo held >> runs", hold=True)
    assert first.process is not None
    first.process.send_signal(signal.SIGSTOP)
    # As a server does that restarts, or that finds its client dead: the lock is free.
    postgres_server.execute(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    )
    refused = second.launch()
    assert refused.wait(40) == 2, second.log_text()
    message = second.log_text()
    assert f"was last used with another data directory, {first.data_dir} on" in message
    assert is_living(pid)
    take_over(second)
    second.start()
    assert second.end(long)["cause"] == "the engine does not know it"
    second.post(f"/jobs/{held}/release")
    assert second.end(held)["state"] == "completed"
    first.process.send_signal(signal.SIGCONT)
    assert first.process.wait(60) == 70, first.log_text()
    assert first.lines("runs") == ["long", "held"]
    assert second.get("/health")["status"] == "healthy"
    eventually(lambda: is_living(pid), "what the operator gave up to be left alone")


def take_over(service: RealService) -> None:
    options = ["--config", str(service._config), "--data-dir", str(service.data_dir)]
    subprocess.run(
        [sys.executable, "-m", "tgpu", "db", "pair", *options, "--take-over"],
        env=clean_environ(),
        check=True,
    )
