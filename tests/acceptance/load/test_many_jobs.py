"""A thousand real jobs at once on 64 simulated GPUs, through the whole path."""

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from tests.real_service import RealService, eventually

_SHARES = ((600, 1.0), (300, 0.5), (100, 2.0))  # jobs, and the GPUs that each has
_JOBS = sum(count for count, _ in _SHARES)
_PATIENCE_SECONDS = 300.0  # some ten on a quiet machine


def test_a_thousand_jobs_end_as_they_should_and_no_gpu_is_ever_given_twice(tmp_path: Path) -> None:
    settings = {"engine": {"kind": "local"}}
    with RealService(tmp_path, gpus="sim:64xA100", settings=settings) as service:
        service.start()
        script = 'echo "$TGPU_JOB_ID $CUDA_VISIBLE_DEVICES"; exit $((TGPU_ARRAY_INDEX % 4))'
        for number, (count, gpus) in enumerate(_SHARES):
            body = {
                "job_id": f"s{number}",
                "command": ["/bin/sh", "-c", script],
                "gpu_count": gpus,
                "working_dir": str(service.work),
                "array": {"indexes": f"1-{count}"},
            }
            service.http.post("/api/v1/jobs", json=body).raise_for_status()
        eventually(
            lambda: _over(service.http) == _JOBS, "all of them to end", _PATIENCE_SECONDS, 0.5
        )
        jobs = _jobs(service.http)
        assert service.busy_gpus() == []
        assert service.get("/health")["status"] == "healthy"
        log_of = {job["job_id"]: Path(job["log_dir"], "stdout.log").read_text() for job in jobs}
    assert len(jobs) == _JOBS
    for job in jobs:
        code = job["array"]["index"] % 4
        assert (job["exit_code"], job["attempt"]) == (code, 1), job
        assert job["state"] == ("failed" if code else "completed")
        indexes = ",".join(map(str, job["gpus"]))
        assert log_of[job["job_id"]] == f"{job['job_id']} {indexes}\n"
    most = _most_held(service.data_dir / "tgpu.db")
    assert max(most.values()) <= 1000
    assert len(most) == 64  # all of them were used


def _over(http: httpx.Client) -> int:
    by_state = http.get("/api/v1/cluster/status").json()["jobs_by_state"]
    return sum(by_state.get(state, 0) for state in ("completed", "failed", "cancelled"))


def _jobs(http: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        query = {"limit": 1000} | ({} if cursor is None else {"cursor": cursor})
        page = http.get("/api/v1/jobs", params=query).json()
        found += page["jobs"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def _most_held(database: Path) -> Counter[int]:
    """The most thousandths of each GPU that jobs had at once, by the journal."""
    held: dict[str, list[dict[str, int]]] = {}
    now: Counter[int] = Counter()
    most: Counter[int] = Counter()
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        rows = connection.execute(
            "SELECT job_id, payload FROM journal WHERE kind = 'job_moved' ORDER BY seq"
        )
        for job_id, payload in rows:
            progress = json.loads(payload)["progress"]
            has = progress["state"] in ("scheduled", "running")
            if has and job_id not in held:
                held[job_id] = progress["placement"]["shares"]
                for share in held[job_id]:
                    now[share["gpu_index"]] += share["millis"]
                    most[share["gpu_index"]] = max(
                        most[share["gpu_index"]], now[share["gpu_index"]]
                    )
            elif not has:
                for share in held.pop(job_id, []):
                    now[share["gpu_index"]] -= share["millis"]
    assert held == {}
    return most
