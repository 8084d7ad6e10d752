"""Reservations of a real service on simulated GPUs and the wall's clock, over every store."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.integration.tenants.conftest import restarted
from tests.real_service import RealService, clean_environ, eventually


def ids(service: RealService) -> list[str]:
    return [each["id"] for each in service.get("/reservations")["reservations"]]


def reserve(service: RealService, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = service.post(
        "/reservations", {"gpus": 16, "minutes": 60, "unused_minutes": 0} | fields
    )
    return found


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_reserved_gpus_are_for_jobs_that_name_the_reservation_alone(service: RealService):
    reserve(service)
    other = service.post("/jobs", {"gpu_count": 1})["job_id"]
    mine = service.post("/jobs", {"gpu_count": 4, "reservation": "r-1"})["job_id"]
    service.running(mine)
    assert service.job(other)["state"] == "pending"
    answer = service.http.delete("/api/v1/reservations/r-1")
    assert answer.status_code == 200, answer.text
    service.running(other)
    assert service.job(mine)["state"] == "running"


def test_a_job_of_it_starts_when_it_begins_and_not_before(service: RealService):
    made = reserve(service, gpus=2, starts_at=in_seconds(2))
    job_id = service.post("/jobs", {"gpu_count": 2, "reservation": made["id"]})["job_id"]
    job = service.running(job_id)
    assert job["started_at"] >= made["starts_at"]
    assert job["gpus"] == made["gpus"]


def test_an_unused_reservation_is_given_back_by_itself(service: RealService):
    reserve(service, unused_minutes=0.02)
    waits = service.post("/jobs", {"gpu_count": 16})["job_id"]
    service.running(waits)
    assert ids(service) == []


def test_a_reservation_that_is_over_ends_by_itself_and_so_do_its_waiting_jobs(
    service: RealService,
):
    reserve(service, gpus=1, minutes=0.05)
    first = service.post("/jobs", {"gpu_count": 1, "reservation": "r-1"})["job_id"]
    second = service.post("/jobs", {"gpu_count": 1, "reservation": "r-1"})["job_id"]
    service.running(first)
    assert service.end(second)["cause"] == "reservation r-1 it runs in is over"
    assert ids(service) == []
    assert service.job(first)["state"] == "running"


def test_reservations_are_kept_over_a_restart(service: RealService):
    reserve(service, starts_at=in_seconds(1800), user="ann")
    before = service.get("/reservations")
    if restarted(service):
        assert service.get("/reservations") == before
        assert reserve(service, gpus=1, minutes=5)["id"] == "r-2"


def test_the_audit_log_tells_who_reserved_and_who_gave_back(shared: RealService):
    reserve(shared, id="noted", gpus=1)
    shared.http.delete("/api/v1/reservations/noted")
    entries = [e for e in shared.get("/audit")["entries"] if e["target"] == "noted"]
    assert [(entry["tenant_id"], entry["outcome"]) for entry in entries] == [
        ("default", "ok"),
        ("default", "ok"),
    ]


def test_the_command_line_reserves_shows_and_gives_back(shared: RealService):
    made = json.loads(
        tgpu(shared, "reserve", "--gpus", "2", "--at", "+1h", "--for", "2h", "--json")
    )
    assert made["state"] == "waiting"
    assert made["id"] in tgpu(shared, "reservations")
    assert f"({made['id']})" in tgpu(shared, "gpus")
    assert tgpu(shared, "unreserve", made["id"]) == f"reservation {made['id']} is cancelled\n"
    eventually(lambda: made["id"] not in ids(shared), "the reservation to be gone")


def tgpu(service: RealService, *arguments: str) -> str:
    command = [sys.executable, "-m", "tgpu", *arguments, "--api-url", service.url]
    environ = clean_environ() | {"COLUMNS": "200", "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout
