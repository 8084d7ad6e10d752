"""Tenants, queues, quotas and usage over HTTP, on either store and after a restart."""

from datetime import datetime
from decimal import Decimal

import pytest

from tests.integration.tenants.conftest import restarted
from tests.integration.tenants.test_examples import Json, send
from tests.real_service import RealService, eventually


def lease(service: RealService, job_id: str, **fields: object) -> str:
    return str(service.post("/jobs", {"job_id": job_id, **fields})["job_id"])


def reason(service: RealService, job_id: str) -> str:
    """The code of why a job waits, once that is more than the next cycle."""

    def probe() -> str | None:
        code: str = service.get(f"/jobs/{job_id}/why")["reason"]["code"]
        return None if code == "next_cycle" else code

    return eventually(probe, f"a reason why {job_id} waits")


def gpu_ms(job: Json) -> Decimal:
    """GPU-milliseconds that a job had, by its own times."""
    started, ended = (datetime.fromisoformat(job[name]) for name in ("started_at", "ended_at"))
    return Decimal(round((ended - started).total_seconds() * 1000)) * Decimal(str(job["gpu_count"]))


@pytest.mark.parametrize(
    ("tier", "priority"), [("low", 100), ("normal", 500), ("high", 1000), ("urgent", 2000)]
)
def test_a_tier_is_the_priority_of_jobs_that_name_none(shared, tier, priority):
    shared.post("/tenants", {"id": f"t-{tier}", "name": tier, "priority_tier": tier})
    job_id = lease(shared, f"job-{tier}", tenant_id=f"t-{tier}")
    named = lease(shared, f"named-{tier}", tenant_id=f"t-{tier}", priority=7)
    assert shared.job(job_id)["priority"] == priority
    assert shared.job(named)["priority"] == 7


def test_an_inactive_tenant_takes_and_starts_nothing_and_what_runs_goes_on(service):
    service.post("/tenants", {"id": "t", "name": "Team", "max_concurrent_jobs": 1})
    service.running(lease(service, "runs", tenant_id="t"))
    lease(service, "waits", tenant_id="t")
    assert reason(service, "waits") == "tenant_quota"
    status, tenant = send(service, "DELETE", "/api/v1/tenants/t")
    assert (status, tenant["active"]) == (200, False)
    status, answer = send(service, "POST", "/api/v1/jobs", {"tenant_id": "t"})
    assert (status, answer["error"]["message"]) == (
        409,
        "tenant t is not active and accepts no jobs",
    )
    if restarted(service):
        assert service.get("/tenants/t")["active"] is False
        assert service.job("runs")["state"] == "running"
    service.post("/jobs/runs/complete")
    why = service.get("/jobs/waits/why")["reason"]
    assert (why["code"], why["remedy"]) == ("tenant_inactive", "tgpu tenants change t --active")
    send(service, "PATCH", "/api/v1/tenants/t", {"active": True})
    service.running("waits")


def test_limits_by_type_hold_and_are_kept(service):
    body = {"id": "t", "name": "Team", "max_gpus_by_type": {"A100": 1.5}, "max_gpus": 4}
    service.post("/tenants", body)
    service.running(lease(service, "one", tenant_id="t", gpu_type="A100"))
    service.running(lease(service, "half", tenant_id="t", gpu_count=0.5))
    lease(service, "more", tenant_id="t", gpu_count=0.5)
    assert reason(service, "more") == "tenant_quota"
    restarted(service)
    tenant = service.get("/tenants/t")
    assert (tenant["max_gpus_by_type"], tenant["max_gpus"]) == ({"A100": 1.5}, 4)
    assert tenant["current_gpus_by_type"] == {"A100": 1.5}
    send(service, "PATCH", "/api/v1/tenants/t", {"max_gpus_by_type": {}})
    service.running("more")


def test_limits_that_are_not_enforced_are_shown_and_do_not_limit(service):
    body = {"id": "t", "name": "Team", "max_gpus": 1, "enforce_quota": False}
    service.post("/tenants", body)
    service.running(lease(service, "two", tenant_id="t", gpu_count=2))
    quota = service.get("/queues/quota/t")
    assert (quota["gpu_quota"], quota["used_gpu"], quota["available_gpu"]) == (1, 2, 0)
    assert (quota["gpu_usage_percent"], quota["enforce_quota"]) == (200, False)


def test_queues_cap_disable_and_go_in_order(service):
    for name, fields in (
        ("night", {"priority": -5, "max_concurrent_jobs": 1}),
        ("urgent", {"priority": 10}),
        ("off", {"enabled": False}),
    ):
        made = service.post("/queues", {"project_id": "default", "name": name, **fields})
        assert made["id"] == f"default:{name}"
    assert [queue["name"] for queue in service.http.get("/api/v1/queues").json()] == [
        *("urgent", "default", "off", "night")
    ]
    service.running(lease(service, "n1", queue="night"))
    lease(service, "n2", queue="night")
    assert reason(service, "n2") == "queue_cap"
    lease(service, "o1", queue="off")
    assert reason(service, "o1") == "queue_disabled"
    why = service.get("/jobs/o1/why")["reason"]
    assert why["remedy"] == "tgpu queues change off --tenant default --enable"
    service.running(lease(service, "rest", gpu_count=15))
    lease(service, "important", gpu_count=15, priority=9000)
    lease(service, "first", gpu_count=15, queue="urgent", priority=1)
    restarted(service)
    night = service.get("/queues/default:night")
    assert (night["running_jobs"], night["pending_jobs"], night["total_jobs"]) == (1, 1, 2)
    service.post("/jobs/rest/complete")
    service.running("first")
    assert service.job("important")["state"] == "pending"
    send(service, "PATCH", "/api/v1/queues/default:off", {"enabled": True})
    night = {"max_concurrent_jobs": None, "priority": 3}
    _, changed = send(service, "PATCH", "/api/v1/queues/default:night", night)
    assert (changed["max_concurrent_jobs"], changed["priority"]) == (None, 3)
    service.cancel("important")
    service.post("/jobs/first/complete")
    service.running("o1")
    service.running("n2")
    service.post("/jobs/n1/complete")
    status, refused = send(service, "DELETE", "/api/v1/queues/default:night")
    assert (status, refused["error"]["code"]) == (409, "CONFLICT")
    service.post("/jobs/n2/complete")
    assert service.http.delete("/api/v1/queues/default:night").status_code == 204
    assert send(service, "GET", "/api/v1/queues/default:night")[0] == 404


def test_a_job_must_name_a_queue_that_is_there(service):
    status, answer = send(service, "POST", "/api/v1/jobs", {"queue": "nonesuch"})
    assert status == 422
    assert "no such queue; there are: default" in answer["error"]["message"]


def test_a_quota_is_set_and_read_in_cores_gibibytes_and_gpus(service):
    service.post("/tenants", {"id": "p1", "name": "Project"})
    body = {"cpu_quota": 100.0, "memory_quota": 500.0, "gpu_quota": 8}
    status, quota = send(service, "PATCH", "/api/v1/queues/quota/p1", body)
    assert status == 200
    fields = {"project_id": "p1", "cpu_cores": 25, "memory_mb": 128000, "gpu_count": 2}
    service.running(lease(service, "j", **fields))
    restarted(service)
    quota = service.get("/queues/quota/p1")
    del quota["synced_at"]
    assert quota == {
        "project_id": "p1",
        "cpu_quota": 100.0,
        "used_cpu": 25.0,
        "available_cpu": 75.0,
        "cpu_usage_percent": 25.0,
        "memory_quota": 500.0,
        "used_memory": 125.0,
        "available_memory": 375.0,
        "memory_usage_percent": 25.0,
        "gpu_quota": 8.0,
        "used_gpu": 2.0,
        "available_gpu": 6.0,
        "gpu_usage_percent": 25.0,
        "borrowed_gpu": 0.0,
        "lent_gpu": 0.0,
        "enforce_quota": True,
        "provider": "local",
        "user_limits": {
            "max_gpus": None,
            "max_concurrent_jobs": None,
            "max_gpu_hours_per_day": None,
        },
        "users": [],
    }
    assert service.post("/queues/quota/p1/sync")["used_gpu"] == 2
    send(service, "PATCH", "/api/v1/queues/quota/p1", {"gpu_quota": None})
    after = service.get("/queues/quota/p1")
    assert (after["gpu_quota"], after["available_gpu"], after["cpu_quota"]) == (None, None, 100)


def test_usage_and_cost_are_the_gpu_time_of_the_jobs_to_the_millisecond(service):
    service.post("/tenants", {"id": "t", "name": "Team"})
    for job_id, gpus in (("a", 2), ("b", 0.5), ("c", 3)):
        service.running(lease(service, job_id, tenant_id="t", gpu_count=gpus))
    service.post("/jobs/a/complete")
    restarted(service)
    service.post("/jobs/b/complete")
    service.cancel("c")
    restarted(service)
    spent = sum((gpu_ms(service.end(job_id)) for job_id in "abc"), Decimal(0))
    usage = service.get("/tenants/t/usage")
    total = usage["total"]
    assert spent > 0
    assert Decimal(str(total["gpu_seconds"])) * 1000 == spent
    assert total["gpu_hours"] == pytest.approx(float(spent) / 3_600_000, abs=1e-9)
    assert total["cost"] == pytest.approx(float(spent) / 3_600_000 * 7200, abs=1e-4)
    ended = ("jobs_completed", "jobs_failed", "jobs_cancelled")
    assert [total[name] for name in ended] == [2, 0, 1]
    assert sum(Decimal(str(day["gpu_seconds"])) for day in usage["days"]) * 1000 == spent
    assert service.get("/tenants/t")["usage"] == total


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/tenants", {"name": "x", "fair_share_weight": 0}, 422),
        ("POST", "/tenants", {"name": "x", "fair_share_weight": 0.0001}, 422),
        ("PATCH", "/tenants/default", {"fair_share_weight": 0}, 422),
        ("POST", "/tenants", {"name": "x", "max_gpus": 0.001}, 422),
        ("POST", "/tenants", {"name": "x", "max_gpus": True}, 422),
        ("POST", "/tenants", {"name": "x", "max_gpus": -1}, 422),
        ("POST", "/tenants", {"name": "x", "id": "-x"}, 422),
        ("POST", "/tenants", {"name": "x", "id": "default"}, 409),
        ("POST", "/tenants", {}, 422),
        ("GET", "/tenants/nobody", None, 404),
        ("PATCH", "/tenants/nobody", {"max_gpus": 1}, 404),
        ("DELETE", "/tenants/nobody", None, 404),
        ("GET", "/tenants/nobody/usage", None, 404),
        ("GET", "/queues?project_id=nobody", None, 404),
        ("POST", "/queues", {"project_id": "nobody", "name": "q"}, 404),
        ("POST", "/queues", {"name": "a/b"}, 422),
        ("POST", "/queues", {"name": "default"}, 409),
        ("PATCH", "/queues/default", {"priority": 1}, 404),
        ("DELETE", "/queues/default:default", None, 409),
        ("GET", "/queues/quota/nobody", None, 404),
        ("PATCH", "/queues/quota/default", {"gpu_quota": "8"}, 422),
        ("POST", "/jobs", {"tenant_id": "nobody"}, 422),
    ],
)
def test_mistakes_are_refused_in_the_one_shape_of_errors(shared, method, path, body, status):
    found, answer = send(shared, method, f"/api/v1{path}", body)
    assert found == status, answer
    assert set(answer["error"]) == {"code", "message", "details"}


def test_a_job_after_an_array_waits_for_all_its_elements(service):
    array = service.post("/jobs", {"job_id": "sweep", "array": {"indexes": "1-3"}})
    body = {"job_id": "sum", "after": [{"job_id": "sweep"}]}
    service.post("/jobs", body)
    assert service.job("sum")["after"] == [
        {"job_id": job_id, "kind": "ok"} for job_id in array["job_ids"]
    ]
    for job_id in array["job_ids"]:
        assert service.job("sum")["state"] == "pending"
        service.running(job_id)
        service.post(f"/jobs/{job_id}/complete")
    service.running("sum")
    restarted(service)
    assert service.http.post("/api/v1/jobs", json=body).json()["job_id"] == "sum"
    late = {"job_id": "late", "after": [{"job_id": "sweep"}]}
    service.running(service.post("/jobs", late)["job_id"])


def test_a_job_after_nothing_that_exists_is_refused(shared):
    status, answer = send(shared, "POST", "/api/v1/jobs", {"after": [{"job_id": "nonesuch"}]})
    assert status == 422
    assert "there is no such job" in answer["error"]["message"]
