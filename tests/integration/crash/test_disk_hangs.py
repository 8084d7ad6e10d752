"""A disk that does not answer: commits hang, and nobody who calls does."""

from pathlib import Path

from tests.integration.crash.test_failure_behind_a_commit import FaultyService
from tests.real_service import eventually, gate


def test_callers_are_answered_what_hung_counts_once_and_the_service_ends(tmp_path: Path) -> None:
    frozen = tmp_path / "frozen"
    settings = {"database": {"timeout_seconds": 1}}
    environ = {"FAULTY_FROZEN": str(frozen)}
    with FaultyService(tmp_path, settings=settings, environ=environ) as service:
        service.step = "hang"
        service.start()
        runs = service.submit(gate())
        pid = service.running(runs)["pid"]
        frozen.touch()
        body = service.request("echo hung >> ran", job_id="hung")
        answer = service.http.post("/api/v1/jobs", json=body)
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert answer.json()["error"]["details"][0]["outcome"] == "unknown"
        body = service.request("echo refused >> ran", job_id="refused")
        refused = service.http.post("/api/v1/jobs", json=body)
        assert refused.status_code == 503
        assert "Nothing was recorded" in refused.json()["error"]["message"]
        assert service.get("/health")["status"] == "degraded"
        assert service.job(runs)["pid"] == pid  # reads go on

        frozen.unlink()
        there = "/api/v1/jobs/hung"
        eventually(lambda: service.http.get(there).status_code == 200, "it to be recorded")
        assert service.end("hung")["state"] == "completed"
        assert service.lines("ran") == ["hung"]
        eventually(lambda: service.get("/health")["status"] == "healthy", "all to be well")
        frozen.touch()
        service.http.post("/api/v1/jobs", json=service.request("true", job_id="late"))
        assert service.terminate(30) == 0
        frozen.unlink()
