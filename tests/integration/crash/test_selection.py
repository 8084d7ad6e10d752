"""A selection is cancelled whole or not at all, whenever the service is killed."""

from pathlib import Path
from typing import Any

import httpx

from tests.integration.crash.test_failure_behind_a_commit import FaultyService
from tests.real_service import RealService, eventually

WAITING = 58


def elements(service: RealService, array_id: str) -> list[dict[str, Any]]:
    return list(service.get(f"/jobs?limit=1000&array_id={array_id}")["jobs"])


def states(service: RealService, array_id: str) -> set[str]:
    return {job["state"] for job in elements(service, array_id)}


def test_an_array_cancelled_under_kill_9_is_whole_and_none_that_waits_ever_starts(
    tmp_path: Path,
) -> None:
    with FaultyService(tmp_path, gpus="sim:4xA100") as service:
        service.step = "half"
        service.start()
        array = {"indexes": "1-60", "max_running": 2}
        array_id = service.post("/jobs", service.request("sleep 300", array=array))["job_id"]
        for number in range(1, 3):
            service.running(f"{array_id}.{number:02}")
        body = {"action": "cancel", "jobs": [array_id]}
        try:
            service.http.post("/api/v1/jobs/select", json=body)
        except httpx.HTTPError:
            pass
        else:
            raise AssertionError("it was to be killed")
        assert service.process is not None
        assert service.process.wait(20) == -9

        service.step = None
        service.start()
        assert states(service, array_id) == {"running", "pending"}
        answer = service.post("/jobs/select", body)
        assert answer["counts"] == {"running": 2, "waiting": WAITING}
        eventually(lambda: states(service, array_id) == {"cancelled"}, "all to be over")
        started = [job for job in elements(service, array_id) if job["started_at"]]
        assert len(started) == 2
