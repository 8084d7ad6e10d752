"""What keeps the service from starting is said in a sentence, with exit code 2."""

import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.integration.crash.conftest import StartService
from tests.real_service import RealService, clean_environ, free_port


def test_two_services_on_one_directory(start: StartService) -> None:
    service = start()
    message = refusal(service, "--port", str(free_port()))
    assert f"a service already runs on {service.data_dir}" in message
    assert service.get("/health")["status"] == "healthy"


def test_a_port_in_use(start: StartService, tmp_path: Path) -> None:
    service = start()
    message = refusal(service, "--data-dir", str(tmp_path / "other"))
    assert f"cannot listen on 127.0.0.1:{service.port}" in message
    assert "--port" in message


def test_a_data_directory_that_cannot_be_made(stopped: RealService, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    message = refusal(stopped, "--data-dir", str(file / "data"))
    assert f"cannot use the data directory {file / 'data'}: Not a directory" in message
    assert "--data-dir" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every directory")
def test_a_data_directory_of_somebody_else(stopped: RealService, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    message = refusal(stopped, "--data-dir", str(closed))
    assert f"cannot use the data directory {closed}: Permission denied" in message


def test_a_database_of_a_newer_version(stopped: RealService) -> None:
    with sqlite3.connect(stopped.data_dir / "tgpu.db") as database:
        database.execute("UPDATE meta SET value = '999' WHERE key = 'schema_version'")
    database.close()
    message = refusal(stopped)
    assert "schema version 999" in message
    assert "install the newer gpu-scheduler" in message


def test_a_file_that_is_no_database(stopped: RealService) -> None:
    for file in stopped.data_dir.glob("tgpu.db*"):
        file.unlink()
    (stopped.data_dir / "tgpu.db").write_bytes(b"no database" * 1000)
    assert "is not a database" in refusal(stopped)


def test_a_supervisor_that_cannot_start(stopped: RealService) -> None:
    journal = stopped.data_dir / "engine" / "attempts.log"
    journal.write_text('["version",999]\n')
    for pid in stopped.processes():
        os.kill(pid, 15)
    assert "written by a newer version" in refusal(stopped)


@pytest.fixture
def stopped(start: StartService) -> RealService:
    """A service that has ended, with its data directory."""
    service = start()
    assert service.terminate() == 0
    return service


def refusal(service: RealService, *options: str) -> str:
    """What the command says when it is started with these options on top."""
    done = subprocess.run(
        [*service.command(), *options],
        capture_output=True,
        text=True,
        timeout=30,
        env=clean_environ(),
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert "Traceback" not in said
    return " ".join(said.split())
