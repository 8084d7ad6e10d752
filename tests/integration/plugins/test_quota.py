"""Quota providers of another package, in a live service."""

import pytest

from tests.real_service import eventually

ONE_GPU = {"quota": {"provider": "one-gpu"}}


@pytest.mark.parametrize("service", [ONE_GPU], indirect=True)
def test_a_provider_refuses_and_is_released_when_jobs_end(service):
    service.start()
    for job_id in ("first", "second"):
        service.post("/jobs", {"job_id": job_id, "gpu_count": 1})
    service.running("first")
    why = eventually(lambda: _refusal(service, "second"), "the refusal to be explained")
    assert why["message"] == "quota provider one-gpu does not allow tenant default more now"
    assert why["remedy"] == "tgpu quota show default"
    quota = service.get("/queues/quota/default")
    assert (quota["provider"], quota["gpu_quota"], quota["used_gpu"]) == ("one-gpu", 1.0, 1.0)
    assert (quota["available_gpu"], quota["gpu_usage_percent"]) == (0.0, 100.0)
    service.post("/jobs/first/complete")
    service.running("second")
    service.post("/jobs/second/complete")
    assert service.get("/queues/quota/default")["used_gpu"] == 0


@pytest.mark.parametrize("service", [ONE_GPU], indirect=True)
def test_what_the_provider_refuses_keeps_no_gpu_from_others(service):
    service.start()
    service.post("/tenants", {"id": "other", "name": "Other"})
    service.post("/jobs", {"job_id": "large", "gpu_count": 2, "priority": 9000})
    service.post("/jobs", {"job_id": "small", "gpu_count": 1, "tenant_id": "other"})
    service.running("small")
    assert service.job("large")["state"] == "pending"


@pytest.mark.parametrize("service", [ONE_GPU], indirect=True)
def test_what_runs_counts_again_after_a_restart(service):
    service.start()
    service.post("/jobs", {"job_id": "first", "gpu_count": 1})
    service.running("first")
    service.restart()
    assert service.get("/queues/quota/default")["used_gpu"] == 1
    service.post("/jobs", {"job_id": "second", "gpu_count": 1})
    eventually(lambda: _refusal(service, "second"), "the second to be refused")


@pytest.mark.parametrize("service", [{"quota": {"provider": "failing"}}], indirect=True)
def test_a_provider_that_fails_starts_nothing_and_is_reported(service):
    service.start()
    service.post("/jobs", {"job_id": "first", "gpu_count": 1})
    problems = eventually(lambda: service.get("/health")["problems"], "the problem to be shown")
    assert problems == ["quota provider failing: ConnectionError: the quota server is away"]
    assert service.job("first")["state"] == "pending"
    assert service.log_text().count("the quota provider failed") == 1


def _refusal(service, job_id):
    reason = service.get(f"/jobs/{job_id}/why")["reason"]
    return reason if reason["code"] == "quota_provider" else None
