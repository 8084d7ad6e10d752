"""What keeps the service from starting is said in a sentence, with exit code 2."""

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.crash.conftest import StartService
from tests.real_service import RealService, clean_environ, free_port
from tgpu.engines.local.paths import JOURNAL


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


def test_a_data_directory_that_cannot_be_made(new: RealService, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    message = refusal(new, "--data-dir", str(file / "data"))
    assert (
        f"cannot use the data directory {file / 'data'}: a file is in its way: move it, or"
        in message
    )
    assert "--data-dir" in message


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A directory that this user cannot write to; for root it must be a read-only file system."""
    place = tmp_path / "closed"
    place.mkdir(mode=0o000)
    if os.geteuid() != 0:
        yield place
        return
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(place)]
    subprocess.run(mount, check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_data_directory_that_cannot_be_written(new: RealService, closed: Path) -> None:
    message = refusal(new, "--data-dir", str(closed))
    assert f"cannot use the data directory {closed}: " in message
    assert "--data-dir" in message


def test_a_database_of_a_newer_version(start: StartService) -> None:
    service = start()
    assert service.terminate() == 0
    with sqlite3.connect(service.data_dir / "tgpu.db") as database:
        database.execute("UPDATE meta SET value = '999' WHERE key = 'schema_version'")
    database.close()
    message = refusal(service)
    assert "schema version 999" in message
    assert "install the newer tgpu" in message


def test_a_file_that_is_no_database(new: RealService) -> None:
    new.data_dir.mkdir()
    (new.data_dir / "tgpu.db").write_bytes(b"no database" * 1000)
    assert "is not a database" in refusal(new)


def test_a_supervisor_that_cannot_start(new: RealService) -> None:
    engine = new.data_dir / "engine"
    engine.mkdir(parents=True)
    (engine / JOURNAL).write_text('["version",999]\n')
    assert "written by a newer version" in refusal(new)


def test_gpus_of_a_driver_that_is_not_there(new: RealService) -> None:
    message = refusal(new, "--gpus", "nvml")
    assert "devices.gpus: no GPUs with nvml: the driver's library libnvidia-ml.so.1 was" in message
    assert "auto (the default) uses what there is" in message


@pytest.fixture
def new(tmp_path: Path) -> Iterator[RealService]:
    """A service that was never started."""
    with RealService(tmp_path / "new") as service:
        yield service


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
