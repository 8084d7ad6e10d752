"""A full disk under the data directory: nothing new is taken, jobs go on and end, none is lost."""

import json
import os
import subprocess
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path

import httpx
import pytest

from tests.integration.crash.conftest import StartService
from tests.real_service import RealService, eventually, gate, kill_and_wait

_DISK_MIB = 16
_BALLAST = {"database": {"ballast_mb": 32}}  # a twentieth of the disk, as it is small


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


def test_jobs_end_and_are_cancelled_on_a_full_disk_and_nothing_new_is_taken(
    disk: Path, start: StartService
) -> None:
    service = start(data_dir=disk / "data", settings=_BALLAST)
    ballast = disk / "data" / "ballast"
    assert ballast.stat().st_blocks * 512 >= ballast.stat().st_size > 500_000
    ends = service.submit(f"echo ran >> ran; {gate()}; echo over >> ran; exit 3")
    stopped = service.submit(f"{gate('never')}")
    waiting = service.submit("exit 0", hold=True)
    service.wait_for_lines("ran", "ran")
    service.running(ends)
    service.running(stopped)

    fill(disk)
    acknowledged, refusal = submit_until_refused(service)
    assert refusal.status_code == 503
    error = refusal.json()["error"]
    assert error["code"] == "UNAVAILABLE"
    assert f"the disk is full: free some space for {disk / 'data'}" in error["message"]
    assert error["details"][0]["free_bytes"] < 2_000_000
    assert int(refusal.headers["Retry-After"]) >= 1
    health = service.get("/health")
    assert health["status"] == "degraded"
    assert any("the disk is full" in problem for problem in health["problems"])
    assert not ballast.exists()
    assert b"gpu_scheduler_disk_low 1.0" in service.http.get("/metrics").content

    service.open_gate()  # it ends, and others are changed, while the disk is full
    service.wait_for_lines("ran", "ran", "over")
    job = service.end(ends)
    assert (job["state"], job["exit_code"], job["attempt"]) == ("failed", 3, 1)
    service.cancel(stopped)
    assert service.end(stopped)["state"] == "cancelled"
    service.cancel(waiting)
    assert service.end(waiting)["state"] == "cancelled"
    assert service.get("/health")["status"] == "degraded"

    free(disk)
    eventually(lambda: service.get("/health")["status"] == "healthy", "health")
    assert ballast.exists()
    later = service.submit("echo later >> later")
    for name in (*acknowledged, later):
        assert service.end(name)["state"] == "completed"
    assert service.busy_gpus() == []
    assert service.process is not None
    assert service.process.poll() is None  # all in one life


def test_a_service_that_finds_the_disk_full_starts_with_the_ballast_and_loses_nothing(
    disk: Path, start: StartService
) -> None:
    service = start(data_dir=disk / "data", settings=_BALLAST)
    job_id = service.submit(f"{gate()}; exit 3")
    service.running(job_id)
    service.kill()
    fill(disk)
    service.open_gate()
    eventually(lambda: not service.processes_of(job_id), "the job to be gone")

    service.start()
    job = service.end(job_id)
    assert (job["state"], job["exit_code"]) == ("failed", 3)
    assert service.get("/health")["status"] == "degraded"

    free(disk)
    eventually(lambda: service.get("/health")["status"] == "healthy", "health")


def test_a_cancel_reaches_a_job_that_the_store_cannot_record(
    disk: Path, start: StartService
) -> None:
    """Once the service lives to record it, once it is killed before it can."""
    service = start(data_dir=disk / "data", settings={"database": {"ballast_mb": 0}})
    first, second = (service.submit(f"{gate('never')}", max_retries=3) for _ in range(2))
    waiting = service.submit("exit 0", hold=True)
    service.running(first)
    service.running(second)

    fill(disk)
    for job_id in (first, second):
        answer = service.http.delete(f"/api/v1/jobs/{job_id}")
        assert answer.status_code == 202, answer.text
        assert answer.json()["recorded"] is False
        assert "not recorded yet: " in answer.json()["message"]
        eventually(lambda job=job_id: not service.processes_of(job), "it to be ended")  # type: ignore[misc]  # bound now
        assert service.job(job_id)["state"] == "running"
        if job_id == first:
            problems = service.get("/health")["problems"]
            assert any("cancels carried out but not recorded yet: 1" in p for p in problems)
            free(disk)
            # Its end may be recorded before the cancel is: either way it is one, and whose it was.
            assert service.end(first)["state"] == "cancelled"
            eventually(lambda: cancels(service) == [first], "the audit row of the cancel")
            fill(disk)
    refused = service.http.delete(f"/api/v1/jobs/{waiting}")  # nothing runs that could be ended
    assert refused.status_code == 503
    service.kill()

    free(disk)
    service.start()
    job = service.end(second)
    assert (job["state"], job["attempt"]) == ("cancelled", 1)
    assert job["cause"] == "cancelled while the store could not record it"
    assert service.job(waiting)["state"] == "pending"


@pytest.mark.parametrize(
    ("make_it_so", "said"),
    [
        ("full", "it is full on the file system at {disk} (0 B of 16.0 MiB free)"),
        ("inodes", "there are no inodes left on the file system at {disk}"),
        ("read-only", "the file system at {disk} is read-only: mount it for writing again"),
    ],
)
def test_a_start_that_cannot_be_says_what_is_wrong(
    disk: Path, tmp_path: Path, make_it_so: str, said: str
) -> None:
    with RealService(tmp_path / "service", data_dir=disk / "data") as service:
        if make_it_so == "full":
            fill(disk)
        elif make_it_so == "inodes":
            remount(disk, "nr_inodes=2")
            (disk / "one").touch()
        else:
            remount(disk, "ro")
        assert service.launch().wait(30) == 2
        log = service.log_text()
        assert said.format(disk=disk) in log
        assert f"{disk / 'data'}" in log
        assert "--data-dir" in log
        assert "Traceback" not in log


_CHATTER = "i=0; while [ $i -lt 40 ]; do yes line | head -c 1000000; sleep 0.1; i=$((i+1)); done"


def test_jobs_that_write_more_than_the_disk_holds_keep_within_their_log_limit(
    disk: Path, start: StartService
) -> None:
    """A plain one, a gang, and one whose runner is killed, of 40 MB each on a disk of 16 MiB."""
    service = start(data_dir=disk / "data", settings=_BALLAST | {"jobs": {"log_limit_mb": 1}})
    refused = service.http.post("/api/v1/jobs", json=service.request("exit 0", log_limit_mb=2))
    assert refused.status_code == 422
    assert "at most 1 here, by jobs.log_limit_mb" in refused.text
    plain = service.submit(f"echo first; {_CHATTER}; echo last", log_limit_mb=1)
    gang = service.submit(f"echo first; {_CHATTER}; echo last", workers=2)
    orphan = service.submit(f"echo first; {gate()}; {_CHATTER}; echo last")
    service.running(orphan)
    kill_and_wait(runner_of(service, orphan))
    service.open_gate()
    for job_id in (plain, gang, orphan):
        assert service.end(job_id)["state"] == "completed"
        log = service.data_dir / "engine" / "jobs" / job_id / "1" / "stdout.log"
        assert log.stat().st_size >= 40_000_000
        assert log.stat().st_blocks * 512 < 8_000_000  # the orphan's is looked at once a second
        text = whole_log(service, job_id)
        assert text.startswith("first\n")
        assert text.endswith("last\n")
        assert text.count("of output left out: the log limit is 1 MiB") == 1
    assert service.get("/health")["status"] == "healthy"
    assert service.job(plain)["log_limit_mb"] == 1


def runner_of(service: RealService, job_id: str) -> int:
    record = service.data_dir / "engine" / "jobs" / job_id / "1" / "attempt.jsonl"
    return int(json.loads(record.read_text().splitlines()[0])["runner"])


def whole_log(service: RealService, job_id: str) -> str:
    text, offset = "", 0
    while True:
        answer = service.http.get(f"/api/v1/jobs/{job_id}/logs", params={"offset": offset})
        if not answer.content:
            return text
        assert int(answer.headers["x-log-left-out"]) > 30_000_000
        text += answer.text
        offset = int(answer.headers["x-log-offset"]) + len(answer.content)


def cancels(service: RealService) -> list[str]:
    rows = service.get("/audit")["entries"]
    return [row["target"] for row in rows if row["action"].startswith("DELETE")]


def remount(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(disk)], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("ab", buffering=0) as filler:
        for size in (1 << 16, 1 << 12, 1):
            with pytest.raises(OSError, match="No space left"):
                write_forever(filler, bytes(size))


def write_forever(file: RawIOBase, data: bytes) -> None:
    while True:
        file.write(data)


def free(disk: Path) -> None:
    (disk / "filler").unlink()


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
