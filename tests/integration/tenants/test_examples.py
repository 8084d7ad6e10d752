"""A team's first day with tenants: every request as the documents of the product show it."""

from typing import Any

from tests.real_service import RealService

Json = dict[str, Any]


def send(service: RealService, method: str, path: str, body: object = None) -> tuple[int, Json]:
    answer = service.http.request(method, path, json=body)
    found: Json = answer.json()
    return answer.status_code, found


def test_create_a_tenant_submit_a_job_and_look_at_both(service):
    status, tenant = send(
        service,
        "POST",
        "/api/v1/tenants",
        {
            "name": "ML Research Team",
            "max_gpus": 16,
            "max_gpu_memory_mb": 200000,
            "max_cpu_cores": 64,
            "max_memory_mb": 500000,
            "max_concurrent_jobs": 20,
        },
    )
    assert status == 201
    assert tenant["id"].startswith("tenant-")
    assert tenant["id"].removeprefix("tenant-").isdigit()
    assert tenant["name"] == "ML Research Team"
    status, submitted = send(
        service,
        "POST",
        "/api/v1/jobs",
        {
            "name": "AI Training Job",
            "tenant_id": tenant["id"],
            "gpu_count": 4,
            "priority": 1000,
            "command": ["python", "train.py"],
            "image": "pytorch:2.0",
            "gpu_memory_mb": 40000,
            "cpu_cores": 16,
            "memory_mb": 64000,
        },
    )
    assert status == 201
    assert submitted["status"] == "submitted"
    assert submitted["message"] == "Job submitted successfully"
    service.running(submitted["job_id"])
    _, listed = send(service, "GET", "/api/v1/jobs")
    assert [(job["name"], job["priority"]) for job in listed["jobs"]] == [("AI Training Job", 1000)]
    _, job = send(service, "GET", f"/api/v1/jobs/{submitted['job_id']}")
    assert (job["tenant_id"], job["gpu_count"], job["image"]) == (tenant["id"], 4, "pytorch:2.0")
    _, cluster = send(service, "GET", "/api/v1/cluster/status")
    numbers = ("total_nodes", "online_nodes", "total_gpus", "available_gpus", "total_jobs")
    assert [cluster[name] for name in numbers] == [1, 1, 16, 12, 1]
    assert (cluster["running_jobs"], cluster["pending_jobs"]) == (1, 0)
    _, tenants = send(service, "GET", "/api/v1/tenants")
    assert {t["id"] for t in tenants["tenants"]} == {"default", tenant["id"]}
    _, one = send(service, "GET", f"/api/v1/tenants/{tenant['id']}")
    assert (one["current_gpus"], one["current_jobs"], one["current_cpu_cores"]) == (4, 1, 16)
    status, cancelled = send(service, "DELETE", f"/api/v1/jobs/{submitted['job_id']}")
    assert (status, cancelled["status"]) == (200, "cancelled")


def test_the_whole_workflow_of_one_tenant_with_three_jobs(service):
    _, tenant = send(
        service,
        "POST",
        "/api/v1/tenants",
        {
            "name": "Data Science Team",
            "max_gpus": 12,
            "max_gpu_memory_mb": 150000,
            "max_cpu_cores": 48,
            "max_memory_mb": 400000,
            "max_concurrent_jobs": 10,
        },
    )
    jobs: list[Json] = [
        {
            "name": "Production Model Training",
            "gpu_count": 8,
            "priority": 2000,
            "command": ["python", "train_production.py"],
            "image": "pytorch:2.0-cuda11.8",
            "gpu_memory_mb": 80000,
            "cpu_cores": 32,
            "memory_mb": 128000,
        },
        {
            "name": "Research Experiment",
            "gpu_count": 2,
            "priority": 500,
            "command": ["python", "experiment.py"],
            "image": "tensorflow:2.13-gpu",
        },
        {
            "name": "Data Preprocessing",
            "gpu_count": 1,
            "priority": 100,
            "command": ["python", "preprocess.py"],
            "image": "cuda:11.8-base",
        },
    ]
    for job in jobs:
        status, answer = send(service, "POST", "/api/v1/jobs", {**job, "tenant_id": tenant["id"]})
        assert status == 201, answer
        service.running(answer["job_id"])
    _, listed = send(service, "GET", "/api/v1/jobs")
    ordered = sorted(listed["jobs"], key=lambda job: -job["priority"])
    assert [(j["priority"], j["name"], j["gpu_count"], j["state"]) for j in ordered] == [
        (2000, "Production Model Training", 8, "running"),
        (500, "Research Experiment", 2, "running"),
        (100, "Data Preprocessing", 1, "running"),
    ]
    assert service.get("/cluster/status")["available_gpus"] == 5


def test_the_tenant_object_in_full_comes_back_as_it_was_sent(service):
    given = {
        "name": "Team Name",
        "max_gpus": 16,
        "max_gpu_memory_mb": 200000,
        "max_cpu_cores": 64,
        "max_memory_mb": 500000,
        "max_concurrent_jobs": 20,
        "priority_tier": "high",
        "fair_share_weight": 1.0,
        "allow_preemption": True,
    }
    status, tenant = send(service, "POST", "/api/v1/tenants", given)
    assert status == 201
    assert {name: tenant[name] for name in given} == given


def test_the_job_object_in_full_is_taken(service):
    service.post("/tenants", {"id": "tenant-1234567890", "name": "Team"})
    status, answer = send(
        service,
        "POST",
        "/api/v1/jobs",
        {
            "tenant_id": "tenant-1234567890",
            "name": "Training Job",
            "priority": 1000,
            "gpu_count": 4,
            "gpu_memory_mb": 40000,
            "cpu_cores": 16,
            "memory_mb": 64000,
            "command": ["python", "train.py"],
            "args": ["--epochs", "100"],
            "image": "pytorch:2.0",
            "environment": {"CUDA_VISIBLE_DEVICES": "0,1,2,3"},
            "gang_scheduling": True,
            "max_runtime_minutes": 1440,
        },
    )
    assert status == 201, answer
    job = service.running(answer["job_id"])
    assert job["command"] == ["python", "train.py", "--epochs", "100"]
    assert (job["max_runtime_minutes"], len(job["gpus"])) == (1440, 4)


def test_a_job_over_the_quota_is_refused_with_the_numbers(service):
    service.post("/tenants", {"id": "tenant-123", "name": "Small", "max_gpus": 4})
    service.running(service.post("/jobs", {"tenant_id": "tenant-123", "gpu_count": 2})["job_id"])
    status, answer = send(
        service, "POST", "/api/v1/jobs", {"tenant_id": "tenant-123", "gpu_count": 8}
    )
    assert status == 422
    assert answer["error"]["code"] == "QUOTA_EXCEEDED"
    assert answer["error"]["message"] == (
        "quota exceeded for tenant tenant-123: GPUs requested=8, quota=4, current=2"
    )


def test_a_command_that_is_no_list_is_refused(service):
    status, answer = send(service, "POST", "/api/v1/jobs", {"command": "python train.py"})
    assert status == 422
    assert answer["error"]["code"] == "VALIDATION_ERROR"
    assert "command" in str(answer["error"])


def test_both_health_checks_answer(service):
    assert send(service, "GET", "/api/v1/health")[0] == 200
    assert send(service, "GET", "/health")[0] == 200
