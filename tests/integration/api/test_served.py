"""The real service as a process, with curl as in the documentation."""

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.api.http import ROOT, a_served, error_of


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("served")
    with a_served(directory, "--config", str(ROOT / "examples" / "quickstart.yaml")) as served:
        yield served


def curl(url: str, command: str, cwd: Path | None = None) -> Any:
    """Run a documented command, with the port it says replaced by ours."""
    words = shlex.split(command.replace("\\\n", " ").replace("http://127.0.0.1:8000", url))
    assert words[0] == "curl"
    words[1:1] = ["--noproxy", "*"]
    done = subprocess.run(words, capture_output=True, check=True, timeout=30, cwd=cwd)
    return json.loads(done.stdout)


def test_every_documented_curl_command_works_as_written(url: str, tmp_path: Path) -> None:
    assert curl(url, "curl -s http://127.0.0.1:8000/healthz") == {"status": "ok"}
    submitted = curl(
        url,
        """curl -s -X POST http://127.0.0.1:8000/jobs \\
  -H "Content-Type: application/json" \\
  -d '{
    "job_id":"j1",
    "tenant_id":"t1",
    "gpu_type":"A100",
    "gpus":1,
    "priority":5,
    "submitted_at":0
  }'""",
    )
    assert submitted["job_id"] == "j1"
    ticked = curl(url, 'curl -s -X POST "http://127.0.0.1:8000/schedule?now=120"')
    assert ticked == {"started": ["j1"], "waiting": 0}
    completed = curl(url, "curl -s -X POST http://127.0.0.1:8000/jobs/j1/complete")
    assert completed["status"] == "COMPLETED"
    stats = curl(url, "curl -s http://127.0.0.1:8000/stats")
    assert stats["jobs"] == {"WAITING": 0, "RUNNING": 0, "COMPLETED": 1}
    batch = curl(
        url,
        """curl -s -X POST http://127.0.0.1:8000/jobs/batch \\
  -H "Content-Type: application/json" \\
  -d '[
    {"job_id":"b1","tenant_id":"t1","gpu_type":"A100","gpus":1,"priority":1,"submitted_at":0},
    {"job_id":"b2","tenant_id":"t2","gpu_type":"H100","gpus":1,"priority":9,"submitted_at":0}
  ]'""",
    )
    assert batch["accepted"] == ["b1", "b2"]
    for fmt in ("ndjson", "csv"):
        (tmp_path / f"jobs.{fmt}").write_bytes((ROOT / "examples" / f"jobs.{fmt}").read_bytes())
        ingested = curl(
            url,
            f'curl -s -X POST "http://127.0.0.1:8000/ingest?fmt={fmt}" \\\n  -F "file=@jobs.{fmt}"',
            cwd=tmp_path,
        )
        assert ingested["counts"] == {"accepted": 3, "rejected": 0}


def test_errors_have_one_shape_also_for_unknown_paths_and_methods(url: str) -> None:
    with httpx.Client(base_url=url, trust_env=False) as http:
        error_of(http.get("/no/such/path"), 404, "NOT_FOUND")
        error_of(http.delete("/stats"), 405, "METHOD_NOT_ALLOWED")
        error_of(http.get("/jobs/nobody"), 404, "JOB_NOT_FOUND")
        error_of(http.post("/jobs", content=b"{"), 422, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    ("length", "status", "code"),
    [(1_500_000, 422, "VALIDATION_ERROR"), (10_000_000, 413, "TOO_LARGE")],
)
def test_a_large_body_is_answered(url: str, length: int, status: int, code: str) -> None:
    with httpx.Client(base_url=url, trust_env=False) as http:
        body = json.dumps({"name": "x" * length})
        answer = http.post(
            "/api/v1/jobs", content=body, headers={"content-type": "application/json"}
        )
        error = error_of(answer, status, code)
        assert len(error["message"]) < 1000


def test_nothing_of_the_real_service_reaches_beyond_loopback(url: str) -> None:
    assert url.startswith("http://127.0.0.1:")
    with httpx.Client(base_url=url, trust_env=False) as http:
        assert http.get("/api/v1/health").json()["status"] == "healthy"
