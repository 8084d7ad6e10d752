"""Nobody waits for a job of another tenant, under whatever name: it is as if it were not there."""

from typing import Any

import grpc
import pytest

from tests.integration.auth.door import OURS, THEIRS, Door, a_door, as_role
from tests.integration.auth.test_grpc_gate import a_port, known
from tgpu.wire import scheduler_pb2 as pb


async def an_array(door: Door, job_id: str, tenant: str, indexes: str) -> None:
    body = {"job_id": job_id, "tenant_id": tenant, "array": {"indexes": indexes}}
    answer = await door.post("/api/v1/jobs", json=body, headers=as_role("admin"))
    assert answer.status_code == 201, answer.text


async def wait_for(door: Door, name: str, path: str = "/api/v1/jobs", kind: str = "ok") -> Any:
    body = {"tenant_id": OURS, "after": [{"job_id": name, "kind": kind}]}
    return await door.post(path, json=body, headers=as_role("user"))


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/jobs/estimate"])
@pytest.mark.parametrize("name", ["secret", "secret.1"], ids=["array", "element"])
@pytest.mark.parametrize("kind", ["ok", "any"])
async def test_another_tenants_array_is_as_one_that_is_not_there(
    path: str, name: str, kind: str
) -> None:
    async with a_door() as door:
        await an_array(door, "secret", THEIRS, "1-2")
        theirs = await wait_for(door, name, path, kind)
        nobodys = await wait_for(door, name.replace("secret", "nobody"), path, kind)
        assert theirs.status_code == nobodys.status_code == 422
        assert theirs.text.replace("secret", "nobody") == nobodys.text


async def test_an_array_that_is_over_is_as_little_seen() -> None:
    async with a_door() as door:
        await an_array(door, "secret", THEIRS, "1")
        await door.delete("/api/v1/jobs/secret.1", headers=as_role("admin"))
        answer = await wait_for(door, "secret")
        assert answer.status_code == 422
        assert "no such job" in answer.text
        assert "cancelled" not in answer.text


async def test_of_a_name_that_two_tenants_use_the_caller_s_own_elements_count() -> None:
    async with a_door() as door:
        await an_array(door, "x", THEIRS, "1-2")
        await an_array(door, "x", OURS, "3-4")
        submitted = await wait_for(door, "x")
        assert submitted.status_code == 201, submitted.text
        job = await door.get(f"/api/v1/jobs/{submitted.json()['job_id']}", headers=as_role("user"))
        assert [one["job_id"] for one in job.json()["after"]] == ["x.3", "x.4"]


async def test_a_job_of_another_does_not_hide_the_caller_s_own_array() -> None:
    async with a_door() as door:
        await door.submit("x", THEIRS)
        await an_array(door, "x", OURS, "1-2")
        submitted = await wait_for(door, "x")
        assert submitted.status_code == 201, submitted.text


async def test_who_sees_all_waits_for_anybodys() -> None:
    async with a_door() as door:
        await an_array(door, "secret", THEIRS, "1-2")
        body = {"tenant_id": OURS, "after": [{"job_id": "secret"}]}
        answer = await door.post("/api/v1/jobs", json=body, headers=as_role("operator"))
        assert answer.status_code == 201, answer.text


async def test_grpc_gives_the_same_answer() -> None:
    async with a_port() as (door, stub):
        await an_array(door, "secret", THEIRS, "1-2")
        said = []
        for name in ("secret", "nobody"):
            request = pb.SubmitJobRequest(tenant_id=OURS, after=[pb.After(job_id=name, kind="ok")])
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.SubmitJob(request, metadata=known("user"))
            said.append(str(refused.value.details()).replace(name, "NAME"))
        assert said[0] == said[1]
