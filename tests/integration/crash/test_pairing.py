"""A database and a data directory that are no pair: nothing is ended, and nothing runs twice.

Each from outside, with jobs that run: the start is refused with the commands that mend it, and
these are run as they are printed.
"""

import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.crash.conftest import StartService
from tests.real_service import RealService, clean_environ, eventually, gate, is_living
from tests.servers.postgres import PostgresServer


def refusal(service: RealService) -> str:
    """The sentence with which it does not start."""
    process = service.launch()
    assert process.wait(40) == 2, service.log_text()
    message = service.log_text().rstrip().rpartition("tgpu: ")[2]
    assert "Nothing was changed." in message
    return message


def commands(message: str) -> list[str]:
    return re.findall(r"tgpu db pair --data-dir \S+ --[a-z-]+", message)


def tgpu(service: RealService, command: str) -> str:
    """As printed, with the settings of the service."""
    words = shlex.split(command)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "tgpu", *words, "--config", str(service._config)],
        env=clean_environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def put_back(service: RealService, backup: Path | None) -> None:
    database = service.data_dir / "tgpu.db"
    for file in service.data_dir.glob("tgpu.db*"):
        if file.suffix != ".lock":
            file.unlink()
    if backup is not None:
        shutil.copy(backup, database)


def back_up(service: RealService, target: Path) -> Path:
    with sqlite3.connect(service.data_dir / "tgpu.db") as source, sqlite3.connect(target) as copy:
        source.backup(copy)
    return target


def a_long_job(service: RealService, name: str = "a") -> tuple[str, int]:
    job_id = service.submit(f"echo {name} >> runs; echo {name}; sleep 600")
    pid = service.running(job_id)["pid"]
    eventually(lambda: name in service.lines("runs"), f"{name} to begin")
    return job_id, pid


def test_a_deleted_database_ends_no_job_and_its_records_answer_for_none(
    start: StartService,
) -> None:
    service = start()
    done = service.submit("echo old; exit 0")
    service.end(done)
    job_id, pid = a_long_job(service)
    assert service.terminate() == 0
    put_back(service, None)
    message = refusal(service)
    assert f"jobs run in it: {job_id} (process {pid})" in message
    keep, end = commands(message)
    assert is_living(pid)
    tgpu(service, keep)
    service.start()
    assert is_living(pid)
    assert f"jobs run that this database does not know: {job_id} " in str(service.get("/health"))
    # Ids go on above what the engine has seen; the names of callers may meet what is there.
    new = service.submit("echo new >> runs")
    assert int(new) > int(job_id)
    service.end(new)
    named = service.request("echo named; echo named >> runs", job_id=done)
    assert service.post("/jobs", named)["job_id"] == done
    assert service.end(done)["state"] == "completed"
    assert service.http.get(f"/api/v1/jobs/{done}/logs").text == "named\n"
    assert service.lines("runs") == ["a", "new", "named"]
    assert service.terminate() == 0
    tgpu(service, end)
    assert not is_living(pid)
    service.start()
    assert "does not know" not in str(service.get("/health"))


def test_a_database_from_a_backup_is_noticed_and_what_it_does_not_know_goes_on(
    start: StartService, tmp_path: Path
) -> None:
    service = start()
    waits = service.submit(f"echo waited >> runs; {gate()}", hold=True)
    backup = back_up(service, tmp_path / "backup.db")
    service.post(f"/jobs/{waits}/release")
    service.running(waits)
    service.wait_for_lines("runs", "waited")
    job_id, pid = a_long_job(service, "later")
    assert service.terminate() == 0
    put_back(service, backup)
    message = refusal(service)
    assert "is older than the data directory" in message
    tgpu(service, commands(message)[0])
    service.start()
    assert is_living(pid)
    assert service.http.get(f"/api/v1/jobs/{job_id}").status_code == 404
    # The one that the backup has waiting runs already: it is found, and does not run twice.
    service.post(f"/jobs/{waits}/release")
    service.running(waits)
    service.open_gate()
    assert service.end(waits)["state"] == "completed"
    assert service.lines("runs") == ["waited", "later"]
    again = service.submit("true")
    assert int(again) > int(job_id)


def test_another_database_in_its_place(start: StartService, tmp_path: Path) -> None:
    service = start()
    _, pid = a_long_job(service)
    assert service.terminate() == 0
    with RealService(tmp_path / "other") as other:
        other.start()
        assert other.terminate() == 0
        put_back(service, back_up(other, tmp_path / "another.db"))
    message = refusal(service)
    assert "was last used with another data directory" in message
    assert str(tmp_path / "other" / "data") in message
    assert is_living(pid)


def test_a_deleted_engine_directory_starts_nothing_a_second_time(
    start: StartService, tmp_path: Path
) -> None:
    service = start()
    job_id, pid = a_long_job(service)
    assert service.terminate() == 0
    (service.data_dir / "engine").rename(tmp_path / "engine")
    message = refusal(service)
    (take_over,) = commands(message)
    assert take_over.endswith("--take-over")
    assert f"declared lost at the next start: {job_id}" in tgpu(service, take_over)
    service.start()
    assert service.end(job_id)["cause"] == "the engine does not know it"
    assert is_living(pid)  # nobody of ours knows it any more; the operator said that it is gone
    assert service.lines("runs") == ["a"]


def test_a_copy_on_another_machine_starts_nothing_a_second_time(start: StartService) -> None:
    service = start()
    job_id, pid = a_long_job(service)
    assert service.terminate() == 0
    file = service.data_dir / "engine" / "pairing.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"machine": "of another machine"}))
    message = refusal(service)
    assert "was copied from another machine" in message
    assert job_id in message
    (take_over,) = commands(message)
    tgpu(service, take_over)
    service.start()
    assert service.job(job_id)["pid"] == pid  # it was the same one after all


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[RealService]:
    with RealService(tmp_path, settings={"database": {"kind": "memory"}}) as service:
        yield service


def test_a_database_in_memory_begins_anew_unless_jobs_of_the_last_one_run(
    in_memory: RealService,
) -> None:
    service = in_memory.start()
    first = service.submit("echo first; exit 3")
    assert service.end(first)["exit_code"] == 3
    assert service.terminate() == 0
    service.start()  # nothing runs: by itself
    assert "used with a database in memory that is gone" in service.log_text()
    named = service.request("echo second", job_id=first)
    service.post("/jobs", named)
    assert service.end(first)["exit_code"] == 0
    assert service.http.get(f"/api/v1/jobs/{first}/logs").text == "second\n"
    job_id, pid = a_long_job(service)
    assert int(job_id) > int(first)
    assert service.terminate() == 0
    message = refusal(service)
    assert "was used with a database in memory that is gone" in message
    assert is_living(pid)
    (end,) = commands(message)
    assert "ended 1 job" in tgpu(service, end)
    assert not is_living(pid)
    service.start()


def test_an_installation_of_before_pairs_by_itself_and_keeps_its_jobs(start: StartService) -> None:
    service = start()
    job_id, pid = a_long_job(service)
    assert service.terminate() == 0
    for name in ("pairing.json", "high-water"):
        (service.data_dir / "engine" / name).unlink()
    with sqlite3.connect(service.data_dir / "tgpu.db") as database:
        database.execute("DELETE FROM documents WHERE kind = 'pairing'")
    service.start()
    assert service.running(job_id)["pid"] == pid
    assert (service.data_dir / "engine" / "pairing.json").stat().st_mode & 0o777 == 0o600


def test_killed_while_it_pairs_it_goes_on_from_there(start: StartService) -> None:
    service = start()
    job_id, pid = a_long_job(service)
    assert service.terminate() == 0
    with sqlite3.connect(service.data_dir / "tgpu.db") as database:
        database.execute("DELETE FROM documents WHERE kind = 'pairing' AND name = 'engine'")
    service.start()
    assert service.running(job_id)["pid"] == pid


def test_a_copy_in_postgresql_takes_the_pair_along(
    start: StartService, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    service = start()
    job_id, pid = a_long_job(service)
    assert service.terminate() == 0
    url = postgres_server.url(postgres_server.new_database())
    copy = ["db", "copy", "--from", f"sqlite:{service.data_dir}/tgpu.db", "--to", url]
    subprocess.run([sys.executable, "-m", "tgpu", *copy], env=clean_environ(), check=True)
    moved = RealService(
        tmp_path / "moved", settings={"database": {"url": url}}, data_dir=service.data_dir
    )
    with moved:
        moved.start()
        assert moved.running(job_id)["pid"] == pid
        later = moved.submit("true")
        moved.end(later)
        assert moved.terminate() == 0
        # The file that was left behind is older by now.
        assert "is older than the data directory" in refusal(service)
