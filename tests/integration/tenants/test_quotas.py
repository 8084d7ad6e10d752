"""Cohorts and budgets of the real service, on every store and after a restart."""

from tests.integration.tenants.conftest import restarted
from tests.integration.tenants.test_examples import Json, send
from tests.integration.tenants.test_tenants import lease, reason
from tests.real_service import RealService, eventually


def budget_of(service: RealService, tenant_id: str) -> Json:
    (status,) = service.get(f"/budgets?tenant_id={tenant_id}")["budgets"]
    found: Json = status
    return found


def test_a_used_up_budget_holds_jobs_also_after_a_restart_and_a_higher_one_lets_them_go(service):
    budget = {"gpu_hours": 0.0001, "window": "total", "action": "hold"}  # 0.36 s of one GPU
    service.post("/tenants", {"id": "t", "name": "Team", "budget": budget})
    service.running(lease(service, "runs", tenant_id="t"))
    eventually(lambda: budget_of(service, "t")["used_up"], "the budget to be used up")
    lease(service, "waits", tenant_id="t")
    assert reason(service, "waits") == "budget"
    before = budget_of(service, "t")
    if restarted(service):
        assert service.job("runs")["state"] == "running"
        assert reason(service, "waits") == "budget"
        assert budget_of(service, "t")["spent_gpu_hours"] > before["spent_gpu_hours"]
    send(service, "PATCH", "/api/v1/tenants/t", {"budget": {"gpu_hours": 1000}})
    service.running("waits")


def test_a_budget_that_says_stop_ends_what_runs(service):
    budget = {"gpu_hours": 0.0001, "window": "total", "action": "stop"}
    service.post("/tenants", {"id": "t", "name": "Team", "budget": budget})
    lease(service, "runs", tenant_id="t")
    job = service.end("runs")
    assert job["state"] == "cancelled"
    assert job["cause"] == "the budget of tenant t is used up"


def test_borrowed_quota_is_borrowed_after_a_restart_too(service):
    service.post("/tenants", {"id": "red", "name": "Red", "max_gpus": 2, "cohort": "lab"})
    service.post("/tenants", {"id": "blue", "name": "Blue", "max_gpus": 4, "cohort": "lab"})
    service.running(lease(service, "r", tenant_id="red", gpu_count=5))
    restarted(service)
    assert service.get("/tenants/red")["borrowed_gpus"] == 3
    lease(service, "b", tenant_id="blue", gpu_count=2)
    assert reason(service, "b") == "quota_lent"
    service.post("/jobs/r/complete")
    service.running("b")
