"""The fair share over HTTP, on every store and after a restart."""

from tests.integration.tenants.conftest import restarted
from tests.integration.tenants.test_examples import send
from tests.real_service import RealService


def lease(service: RealService, job_id: str, **fields: object) -> None:
    service.post("/jobs", {"job_id": job_id, **fields})
    service.running(job_id)


def test_the_share_adds_up_and_survives_a_restart(service: RealService) -> None:
    service.post("/tenants", {"id": "red", "name": "Red", "fair_share_weight": 3})
    service.post("/tenants", {"id": "blue", "name": "Blue"})
    lease(service, "r", tenant_id="red", gpu_count=2, user="ann")
    lease(service, "b", tenant_id="blue", gpu_count=6, user="bob")
    restarted(service)
    found = service.get("/share")
    by_id = {tenant["tenant_id"]: tenant for tenant in found["tenants"]}
    assert [by_id[name]["entitled"] for name in ("blue", "default", "red")] == [0.2, 0.2, 0.6]
    assert (by_id["red"]["current_gpus"], by_id["blue"]["current_gpus"]) == (2, 6)
    assert by_id["blue"]["used"] > by_id["red"]["used"] > 0
    assert [user["user"] for user in by_id["red"]["users"]] == ["ann"]
    assert found["half_life_hours"] == 168


def test_one_tenant_alone_can_be_asked_for(service: RealService) -> None:
    assert [t["tenant_id"] for t in service.get("/share?tenant_id=default")["tenants"]] == [
        "default"
    ]
    status, answer = send(service, "GET", "/api/v1/share?tenant_id=nobody")
    assert (status, answer["error"]["code"]) == (404, "NOT_FOUND")


def test_a_queue_names_an_order_that_there_is(service: RealService) -> None:
    body = {"project_id": "default", "name": "quick", "policy": "shortest"}
    assert service.post("/queues", body)["policy"] == "shortest"
    status, answer = send(service, "PATCH", "/api/v1/queues/default:quick", {"policy": "lottery"})
    assert status == 422
    assert "lottery" in answer["error"]["message"]
    assert "priority, fifo, fairshare, shortest, backfill" in answer["error"]["message"]
