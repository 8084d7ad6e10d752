"""A full disk under the data directory: submits are refused, jobs go on, and nothing is lost."""

import os
import subprocess
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path

import httpx
import pytest

from tests.integration.crash.conftest import StartService
from tests.real_service import RealService, eventually, gate

_DISK_MIB = 16


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which a test may fill."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system to fill")
    place = tmp_path / "disk"
    place.mkdir()
    options = f"size={_DISK_MIB}m,mode=0700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system could be mounted: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_submits_are_refused_and_jobs_go_on_until_there_is_room_again(
    disk: Path, start: StartService
) -> None:
    service = start(data_dir=disk / "data")
    script = f"echo ran >> ran; {gate()}; echo over >> ran; exit 3"
    job_id = service.submit(script)
    service.wait_for_lines("ran", "ran")
    service.running(job_id)

    fill(disk)
    acknowledged, refusal = submit_until_refused(service)
    assert refusal.status_code == 503
    error = refusal.json()["error"]
    assert error["code"] == "UNAVAILABLE"
    assert "the disk is full: free some space" in error["message"]
    assert int(refusal.headers["Retry-After"]) >= 1
    health = service.get("/health")
    assert health["status"] == "degraded"
    assert "the disk is full" in health["problems"][0]

    service.open_gate()  # it ends while nothing can be written down
    service.wait_for_lines("ran", "ran", "over")
    eventually(lambda: not service.processes_of(job_id), "the job to be gone")
    assert service.job(job_id)["state"] == "running"

    free(disk)
    job = service.end(job_id)
    assert (job["state"], job["exit_code"], job["attempt"]) == ("failed", 3, 1)
    later = service.submit("echo later >> later")
    for name in (*acknowledged, later):
        assert service.end(name)["state"] == "completed"
    assert service.get("/health")["status"] == "healthy"
    assert service.busy_gpus() == []
    assert service.process is not None
    assert service.process.poll() is None  # all in one life


def test_a_service_that_finds_the_disk_full_loses_nothing(disk: Path, start: StartService) -> None:
    service = start(data_dir=disk / "data")
    job_id = service.submit(f"{gate()}; exit 3")
    service.running(job_id)
    service.kill()
    fill(disk)
    service.open_gate()
    eventually(lambda: not service.processes_of(job_id), "the job to be gone")

    service.start()  # there is nothing it could write down, but it can be asked
    assert service.job(job_id)["state"] == "running"
    assert service.get("/health")["status"] == "degraded"

    free(disk)
    job = service.end(job_id)
    assert (job["state"], job["exit_code"]) == ("failed", 3)
    assert service.get("/health")["status"] == "healthy"


def fill(disk: Path) -> None:
    with (disk / "ballast").open("ab", buffering=0) as ballast:
        for size in (1 << 16, 1 << 12, 1):
            with pytest.raises(OSError, match="No space left"):
                write_forever(ballast, bytes(size))


def write_forever(file: RawIOBase, data: bytes) -> None:
    while True:
        file.write(data)


def free(disk: Path) -> None:
    (disk / "ballast").unlink()


def submit_until_refused(service: RealService) -> tuple[list[str], httpx.Response]:
    """What still found room, and the first refusal."""
    acknowledged: list[str] = []
    for number in range(200):
        job_id = f"last-{number}"
        answer = service.http.post("/api/v1/jobs", json=service.request("exit 0", job_id=job_id))
        if answer.status_code != 201:
            return acknowledged, answer
        acknowledged.append(job_id)
    raise AssertionError("it took 200 submits on a full disk")
