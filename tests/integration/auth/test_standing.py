"""Priority and age: what a caller may claim for a job that puts it before those of others."""

import time
from typing import Any

import pytest

from tests.integration.auth.door import OURS, THEIRS, Door, a_door, as_role
from tests.integration.auth.test_grpc_gate import a_port, known
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant, Tier
from tgpu.service.recording.clock import WallClock
from tgpu.wire import scheduler_pb2 as pb

TENANTS = (
    Tenant(TenantId(OURS)),
    Tenant(TenantId(THEIRS), max_priority=700),
    Tenant(TenantId("hasty"), tier=Tier.URGENT),
)
PLAIN = {"gpu_type": "A100", "gpus": 1, "submitted_at": 0}


async def submitted(
    door: Door, priority: int | None, role: str = "user", tenant: str = OURS
) -> Any:
    body = {"tenant_id": tenant} | ({} if priority is None else {"priority": priority})
    return await door.post("/api/v1/jobs", json=body, headers=as_role(role, tenant))


@pytest.mark.parametrize(
    ("tenant", "most"), [(OURS, 1999), (THEIRS, 700), ("hasty", 2000)], ids=["role", "own", "tier"]
)
async def test_a_user_gives_no_more_than_the_ceiling(tenant: str, most: int) -> None:
    async with a_door(tenants=TENANTS, max_priority=1999) as door:
        assert (await submitted(door, most, tenant=tenant)).status_code == 201
        assert (await submitted(door, None, tenant=tenant)).status_code == 201
        refused = await submitted(door, most + 1, tenant=tenant)
        assert refused.status_code == 422
        (detail,) = refused.json()["error"]["details"]
        assert (detail["field"], detail["value"]) == ("priority", str(most + 1))
        assert f"at most {most}" in detail["remedy"]


async def test_whoever_is_bound_to_a_tenant_has_its_ceiling_whatever_the_role() -> None:
    async with a_door(tenants=TENANTS, max_priority=1999) as door:
        assert (await submitted(door, 2000, "admin")).status_code == 422
        answer = await door.post(
            "/api/v1/jobs", json={"tenant_id": OURS, "priority": 10**9}, headers=as_role("operator")
        )
        assert answer.status_code == 201


async def test_without_authentication_any_priority_is_taken() -> None:
    async with a_door(enabled=False, tenants=TENANTS, max_priority=1999) as door:
        for priority in (10**12, -(10**12)):
            body = {"tenant_id": THEIRS, "priority": priority}
            assert (await door.post("/api/v1/jobs", json=body)).status_code == 201


async def test_a_change_of_priority_has_the_same_ceiling() -> None:
    async with a_door(tenants=TENANTS, max_priority=1999) as door:
        job_id = (await submitted(door, 5)).json()["job_id"]
        url = f"/api/v1/jobs/{job_id}"
        answers = [
            await door.patch(url, json={"priority": priority}, headers=as_role(role))
            for priority, role in ((2000, "user"), (1999, "user"), (2000, "admin"))
        ]
        assert [answer.status_code for answer in answers] == [422, 200, 200]


async def test_a_job_run_again_gets_no_more_than_its_caller_may_give() -> None:
    async with a_door(tenants=TENANTS, max_priority=1999) as door:
        body = {"job_id": "first", "tenant_id": OURS, "priority": 5000, "user": "user-ada"}
        await door.post("/api/v1/jobs", json=body, headers=as_role("admin"))
        again = await door.post("/api/v1/jobs/first/rerun", headers=as_role("user"))
        assert "priority 1999" in again.json()["warnings"][0]
        job = await door.get(f"/api/v1/jobs/{again.json()['job_id']}", headers=as_role("user"))
        assert job.json()["priority"] == 1999


async def test_the_root_paths_have_the_same_ceiling() -> None:
    async with a_door(tenants=TENANTS, max_priority=1999) as door:
        plain = {**PLAIN, "tenant_id": OURS, "job_id": "p", "priority": 2000}
        headers = as_role("user")
        one = await door.post("/jobs", json=plain, headers=headers)
        assert one.status_code == 422
        assert "at most 1999" in one.json()["error"]["message"]
        many = await door.post("/jobs/batch", json=[plain], headers=headers)
        assert "at most 1999" in many.json()["rejected"][0]["message"]
        csv = "job_id,tenant_id,gpu_type,gpus,priority,submitted_at\nq,ours,A100,1,2000,0\n"
        file = await door.post("/ingest?fmt=csv", files={"file": csv}, headers=headers)
        assert "at most 1999" in file.json()["rejected"][0]["message"]


async def test_grpc_has_the_same_ceiling() -> None:
    async with a_port() as (door, stub):
        object.__setattr__(door.box.service.settings, "max_priority", 1999)
        request = pb.SubmitJobRequest(tenant_id=OURS, priority=2000)
        with pytest.raises(Exception, match="at most 1999"):
            await stub.SubmitJob(request, metadata=known("user"))
        await stub.SubmitJob(request, metadata=known("operator"))


async def test_a_tenants_own_admin_puts_no_queue_before_those_of_others() -> None:
    async with a_door() as door:
        body = {"project_id": OURS, "name": "quick", "priority": 1}
        bound, free = as_role("admin", OURS), as_role("admin")
        assert (await door.post("/api/v1/queues", json=body, headers=bound)).status_code == 422
        body["priority"] = -1
        assert (await door.post("/api/v1/queues", json=body, headers=bound)).status_code == 201
        url, higher = f"/api/v1/queues/{OURS}:quick", {"priority": 5}
        assert (await door.patch(url, json=higher, headers=bound)).status_code == 422
        assert (await door.patch(url, json=higher, headers=free)).status_code == 200


@pytest.mark.parametrize("away", [-3600, 3600], ids=["past", "future"])
@pytest.mark.parametrize("role", ["user", "admin"])
async def test_on_the_wall_clock_no_age_is_claimed(away: int, role: str) -> None:
    async with a_door(clock=WallClock()) as door:
        plain = {**PLAIN, "tenant_id": OURS, "job_id": "p", "priority": 1}
        plain["submitted_at"] = int(time.time()) + away
        headers = as_role(role)
        one = await door.post("/jobs", json=plain, headers=headers)
        assert one.status_code == 422
        assert one.json()["error"]["details"][0]["field"] == "submitted_at"
        many = await door.post("/jobs/batch", json=[plain], headers=headers)
        assert many.json()["counts"] == {"accepted": 0, "rejected": 1}


async def test_on_the_wall_clock_the_service_says_when_a_job_came() -> None:
    async with a_door(clock=WallClock()) as door:
        before = int(time.time())
        plain = {**PLAIN, "tenant_id": OURS, "job_id": "p", "priority": 1}
        plain["submitted_at"] = before - 30  # a clock that is late
        assert (await door.post("/jobs", json=plain, headers=as_role("user"))).status_code == 201
        job = await door.get("/jobs/p", headers=as_role("user"))
        assert job.json()["submitted_at"] >= before
