"""Who did it: named wherever people look, not in the audit log alone."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.integration.auth.door import OURS, OWNER, Door, a_door, as_role
from tests.integration.auth.test_grpc_gate import a_port, known
from tgpu.peers.users import user_name
from tgpu.wire import scheduler_pb2 as pb

JOB = f"{OURS}-1"
ADA, OPS, BOSS = "user-ada", "operator-ada (operator)", "admin-ada (admin)"


async def submitted(door: Door, role: str = "user") -> str:
    body = {"job_id": JOB, "tenant_id": OURS, "gpu_count": 1}
    answer = await door.post("/api/v1/jobs", json=body, headers=as_role(role))
    assert answer.status_code == 201, answer.text
    return f"/api/v1/jobs/{JOB}"


async def seen(door: Door, path: str) -> Any:
    answer = await door.get(path, headers=as_role("user"))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def told(door: Door, kinds: Sequence[str]) -> list[str]:
    """Who did what to the job, by its events."""
    events = (await seen(door, f"/api/v1/jobs/{JOB}/events"))["events"]
    return [event["data"].get("by") for event in events if event["kind"] in kinds]


@pytest.mark.parametrize(("role", "who"), [("user", ADA), ("operator", OPS), ("admin", BOSS)])
async def test_a_cancelled_job_says_by_whom_wherever_one_looks(role: str, who: str) -> None:
    async with a_door() as door:
        path = await submitted(door)
        assert (await door.delete(path, headers=as_role(role))).status_code == 200
        assert (await seen(door, path))["cause"] == f"cancelled by {who}"
        assert (await seen(door, f"{path}/receipt"))["cause"] == f"cancelled by {who}"
        why = (await seen(door, f"{path}/why"))["reason"]["message"]
        assert why == f"was cancelled by {who}"
        assert await told(door, ["job_cancelled"]) == [who]


async def test_a_selection_names_who_asked_for_it_in_each_of_its_jobs() -> None:
    async with a_door() as door:
        path = await submitted(door)
        for action in ("hold", "cancel"):
            body = {"action": action, "jobs": [JOB]}
            answer = await door.post("/api/v1/jobs/select", json=body, headers=as_role("operator"))
            assert answer.is_success, answer.text
        assert (await seen(door, path))["cause"] == f"cancelled by {OPS}"
        assert await told(door, ["job_held", "job_cancelled"]) == [OPS, OPS]


async def test_a_running_job_that_is_cancelled_says_by_whom_until_it_is_over() -> None:
    async with a_door(leases=False) as door:
        path = await submitted(door)
        door.box.engine.stops = False
        await door.box.service.tick(0)
        await door.delete(path, headers=as_role("operator"))
        assert (await seen(door, path))["cause"] == f"cancelled by {OPS}"
        assert (await seen(door, f"{path}/why"))["reason"]["message"].endswith(
            f"cancelled by {OPS}"
        )


async def test_held_released_and_raised_by_whom() -> None:
    async with a_door() as door:
        path = await submitted(door)
        await door.post(f"{path}/hold", headers=as_role("operator"))
        assert (await seen(door, f"{path}/why"))["reason"]["message"] == f"on hold, by {OPS}"
        await door.post(f"{path}/release", headers=as_role("user"))
        await door.patch(path, json={"priority": 7}, headers=as_role("admin"))
        kinds = ["job_held", "job_released", "job_changed"]
        assert await told(door, kinds) == [OPS, ADA, BOSS]


async def test_a_paused_gpu_says_by_whom_and_the_audit_what() -> None:
    async with a_door() as door:
        answer = await door.post("/api/v1/gpus/1/pause", headers=as_role("operator"))
        assert answer.json()["paused"] == f"paused by {OPS}"
        because = {"reason": "a fan is broken"}
        answer = await door.post("/api/v1/gpus/2/pause", json=because, headers=as_role("operator"))
        assert answer.json()["paused"] == f"a fan is broken (by {OPS})"
        await door.post("/api/v1/gpus/1/resume", headers=as_role("admin"))
        details = [row["detail"] for row in await door.audited()]
        assert details == ["GPU 1 resumed", "GPU 2 paused", "GPU 1 paused"]


async def test_the_audit_of_a_changed_quota_says_by_whom_and_from_what_to_what() -> None:
    async with a_door() as door:
        path = f"/api/v1/tenants/{OURS}"
        assert (await door.patch(path, json={"max_gpus": 4}, headers=as_role("admin"))).is_success
        row = (await door.audited())[0]
        assert (row["actor"], row["target"]) == ("user:admin-ada", OURS)
        assert row["detail"] == "max_gpu_millis: None to 4000"


async def test_over_grpc_it_is_the_same() -> None:
    async with a_port() as (door, stub):
        path = await submitted(door)
        await stub.CancelJob(pb.CancelJobRequest(job_id=JOB), metadata=known("operator"))
        assert (await seen(door, path))["cause"] == f"cancelled by {OPS}"


async def test_a_service_that_asks_for_no_keys_names_the_user_of_the_connection() -> None:
    me = user_name(OWNER.peer.uid)  # type: ignore[union-attr]  # an owner has one
    async with a_door(enabled=False) as door:
        for job_id, user in (("mine", me), ("hers", "ada")):
            body = {"job_id": job_id, "tenant_id": OURS, "user": user}
            assert (await door.post("/api/v1/jobs", json=body)).status_code == 201
            await door.delete(f"/api/v1/jobs/{job_id}")
        causes = [(await door.get(f"/api/v1/jobs/{j}")).json()["cause"] for j in ("mine", "hers")]
        assert causes == [f"cancelled by {me}", f"cancelled by {me} (admin)"]
