"""Limits of single users inside a tenant: enforced, explained, shown, kept over a restart."""

from dataclasses import replace
from typing import Any

import pytest

from tests.integration.auth.door import OURS, THEIRS, Door, a_door, a_token, bearer
from tests.integration.auth.test_grpc_gate import a_port
from tests.unit.service.world import a_box, a_submission
from tgpu.core.model.ids import TenantId
from tgpu.core.model.job import Detail
from tgpu.core.model.tenant import MembersSee, Tenant, UserLimits
from tgpu.store.memory import MemoryStore
from tgpu.wire import scheduler_pb2 as pb

HOUR = 3600
ADMIN = bearer(a_token("admin"))


def who(name: str, role: str = "user") -> dict[str, str]:
    return bearer(a_token(role, [OURS], sub=name))


async def submitted(door: Door, name: str, job_id: str, gpus: float = 1) -> Any:
    body = {"job_id": job_id, "tenant_id": OURS, "gpu_count": gpus, "gpu_type": "A100"}
    return await door.post("/api/v1/jobs", json=body, headers=who(name))


async def limited(door: Door, body: dict[str, Any], headers: dict[str, str] = ADMIN) -> Any:
    return await door.patch(f"/api/v1/tenants/{OURS}/users", json=body, headers=headers)


async def tick(door: Door, now: int) -> list[str]:
    answer = await door.post(f"/schedule?now={now}", headers=ADMIN)
    found: list[str] = answer.json()["started"]
    return found


async def test_a_user_gets_no_more_than_their_part_and_others_get_theirs() -> None:
    async with a_door() as door:
        answer = await limited(door, {"user_limits": {"max_gpus": 2, "max_concurrent_jobs": 2}})
        assert answer.status_code == 200, answer.text
        for number in range(3):
            await submitted(door, "ada", f"a{number}")
        await submitted(door, "bob", "b", gpus=2)
        assert sorted(await tick(door, 1)) == ["a0", "a1", "b"]
        why = (await door.get("/api/v1/jobs/a2/why", headers=who("ada"))).json()
        assert why["reason"]["code"] == "user_limit"
        assert why["reason"]["message"] == (
            "ada has 2 of the 2 GPUs in use that a user of tenant ours may have, and this job "
            "needs 1; it starts when one of those ends"
        )
        assert {one["job_id"] for one in why["blockers"]} == {"a0", "a1"}
        await door.post("/api/v1/jobs/a0/complete", headers=who("ada"))
        assert await tick(door, 2) == ["a2"]


async def test_one_is_one() -> None:
    async with a_door() as door:
        await limited(door, {"user_limits": {"max_concurrent_jobs": 1}})
        await submitted(door, "ada", "a")
        await submitted(door, "ada", "b")
        await tick(door, 1)
        why = (await door.get("/api/v1/jobs/b/why", headers=who("ada"))).json()
        assert why["reason"]["message"].startswith("ada has 1 of the 1 job running that a user")


async def test_what_a_user_may_never_have_is_refused_and_named_users_have_their_own() -> None:
    async with a_door() as door:
        await limited(door, {"user_limits": {"max_gpus": 1}, "users": {"bob": {"max_gpus": 2}}})
        refused = await submitted(door, "ada", "a", gpus=2)
        assert refused.status_code == 422
        assert "user ada: GPUs requested=2, quota=1" in refused.json()["error"]["message"]
        assert (await submitted(door, "bob", "b", gpus=2)).status_code == 201
        await limited(door, {"users": {"bob": None}})
        assert (await submitted(door, "bob", "c", gpus=2)).status_code == 422


async def test_a_day_is_used_up_and_the_next_one_begins_anew() -> None:
    async with a_door() as door:
        await limited(door, {"users": {"ada": {"max_gpu_hours_per_day": 2}}})
        await submitted(door, "ada", "a")
        assert await tick(door, 0) == ["a"]
        await submitted(door, "ada", "b")
        assert await tick(door, HOUR) == ["b"]
        await submitted(door, "ada", "c")
        assert await tick(door, HOUR + HOUR // 2) == []
        why = (await door.get("/api/v1/jobs/c/why", headers=who("ada"))).json()
        assert why["reason"]["code"] == "user_day"
        assert "ada has used 2.00 of the 2.00 GPU hours a day" in why["reason"]["message"]
        quota = (await door.get(f"/api/v1/queues/quota/{OURS}", headers=who("ada"))).json()
        (ada,) = quota["users"]
        assert (ada["gpu_hours_today"], ada["max_gpu_hours_per_day"]) == (2.0, 2.0)
        assert (ada["by_name"], ada["current_jobs"]) == (True, 2)
        share = (await door.get("/api/v1/share", headers=who("ada"))).json()
        assert share["tenants"][0]["users"][0]["limits"]["max_gpu_hours_per_day"] == 2.0
        assert await tick(door, 24 * HOUR) == ["c"]


async def test_a_tenants_admin_limits_its_users_and_nobody_elses() -> None:
    async with a_door() as door:
        body = {"user_limits": {"max_gpus": 1}}
        assert (await limited(door, body, who("pi", "admin"))).status_code == 200
        assert (await limited(door, body, who("ada"))).status_code == 403
        url = f"/api/v1/tenants/{THEIRS}/users"
        answer = await door.patch(url, json=body, headers=who("pi", "admin"))
        assert answer.status_code == 404


async def test_grpc_and_tenants_have_the_same_limits() -> None:
    async with a_port() as (door, stub):
        request = pb.UpdateTenantQuotaRequest(
            tenant_id=OURS,
            user_limits=pb.UserLimits(max_gpus=2),
            users={"ada": pb.UserLimits(max_concurrent_jobs=3)},
        )
        metadata = [("authorization", ADMIN["Authorization"])]
        tenant = await stub.UpdateTenantQuota(request, metadata=metadata)
        assert tenant.user_limits.max_gpus == 2
        assert tenant.users["ada"].max_concurrent_jobs == 3
        found = (await door.get(f"/api/v1/tenants/{OURS}", headers=ADMIN)).json()
        # What is set for ada begins with what she had before.
        assert found["users"]["ada"] == {
            "max_gpus": None,
            "max_concurrent_jobs": 3,
            "max_gpu_hours_per_day": None,
        }
        body = {"name": "x", "id": "x", "users": {"bob": {"max_gpus": 1}}}
        made = await door.post("/api/v1/tenants", json=body, headers=ADMIN)
        assert made.json()["users"]["bob"]["max_gpus"] == 1.0


async def test_where_members_see_nothing_they_see_their_own_row() -> None:
    tenants = (Tenant(TenantId(OURS), members_see=MembersSee.NOTHING), Tenant(TenantId(THEIRS)))
    async with a_door(tenants=tenants) as door:
        await limited(door, {"users": {"ada": {"max_gpus": 1}, "bob": {"max_gpus": 1}}})
        for url in (f"/api/v1/tenants/{OURS}/users", f"/api/v1/queues/quota/{OURS}"):
            seen = (await door.get(url, headers=who("bob"))).json()["users"]
            assert [each["user"] for each in seen] == ["bob"]


@pytest.mark.parametrize("later", [False, True], ids=["from the beginning", "set while it ran"])
async def test_a_restart_forgets_nothing_of_the_day(later: bool) -> None:
    store = MemoryStore()
    limits = UserLimits(max_gpu_millis_ms_a_day=2 * 1000 * HOUR * 1000)
    tenants = () if later else (Tenant(TenantId("default"), user_limits=limits),)
    settings: dict[str, Any] = {"store": store, "leases": True}
    if tenants:
        settings["tenants"] = tenants
    async with a_box(**settings) as box:
        service = box.service
        await service.jobs.submit(_lease("a"))
        await box.tick(10 * HOUR * 1000)
        if later:
            await service.tenants.change(TenantId("default"), {"user_limits": limits})
        await box.tick(11 * HOUR * 1000)
        before = service.state.user_days.spend(TenantId("default"), "ada").upto(service.state.now)
        assert before.day == 1000 * HOUR * 1000
    async with a_box(**settings) as box:
        await box.tick(12 * HOUR * 1000)
        day = box.service.state.user_days.spend(TenantId("default"), "ada").upto(12 * HOUR * 1000)
        assert day.day == 2 * 1000 * HOUR * 1000
        assert (TenantId("default"), "ada") in box.service.state.ledger.over_day


def _lease(job_id: str) -> Any:
    return replace(a_submission(job_id=job_id), detail=Detail(user="ada"))
