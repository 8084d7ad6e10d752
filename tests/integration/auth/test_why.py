"""Why a job waits is told to its owner, without the names of others' jobs, and with a way out."""

from random import Random
from typing import Any

import pytest

from tests.integration.auth.door import OURS, THEIRS, Door, a_door, as_role
from tests.integration.auth.test_grpc_gate import a_port
from tgpu.wire import scheduler_pb2 as pb


async def test_blockers_of_a_tenant_one_does_not_see_have_no_names() -> None:
    async with a_door() as door:
        body = {"job_id": "theirs-1", "tenant_id": THEIRS, "gpu_count": 2, "gpu_type": "H100"}
        await door.post("/api/v1/jobs", json=body, headers=as_role("admin"))
        await door.box.service.trigger()
        mine = {"job_id": "ours-1", "tenant_id": OURS, "gpu_count": 2, "gpu_type": "H100"}
        await door.post("/api/v1/jobs", json=mine, headers=as_role("user"))
        ask = "/api/v1/jobs/ours-1/why"
        hidden = (await door.get(ask, headers=as_role("viewer"))).json()
        (blocker,) = hidden["blockers"]
        assert (blocker["job_id"], blocker["tenant_id"], blocker["user"]) == (None, None, None)
        assert (blocker["gpus"], blocker["gpu_count"]) == ([4, 5], 2)
        assert "theirs" not in str(hidden)
        shown = (await door.get(ask, headers=as_role("admin"))).json()
        assert [one["job_id"] for one in shown["blockers"]] == ["theirs-1"]


async def test_a_submission_with_the_fields_of_the_change_starts() -> None:
    async with a_door() as door:
        mine = as_role("user")
        body = {"job_id": "a", "tenant_id": OURS, "gpu_count": 1, "gpu_type": "H100"}
        await door.post("/api/v1/jobs", json=body, headers=mine)
        await door.box.service.trigger()
        wanted = {**body, "job_id": "j", "gpu_count": 2}
        await door.post("/api/v1/jobs", json=wanted, headers=mine)
        change = (await door.get("/api/v1/jobs/j/why", headers=mine)).json()["change"]
        assert change == {
            "sentence": "on A100 it would start now",
            "command": "tgpu submit --gpus 2 --type A100 --tenant ours --lease && tgpu cancel j",
            "fields": {"gpu_type": "A100", "gpu_types": []},
        }
        again = {**wanted, **change["fields"], "job_id": "k"}
        await door.post("/api/v1/jobs", json=again, headers=mine)
        plan = await door.box.service.trigger()
        assert [start.job_id for start in plan.starts] == ["k"]


@pytest.mark.parametrize("seed", range(3))
async def test_lists_one_job_and_why_give_the_same_reason_to_every_reader(seed: int) -> None:
    """Over REST and gRPC, also before a cycle has seen the jobs, and with the names that this
    reader may see."""
    rng = Random(seed)
    async with a_port() as (door, stub):
        service = door.box.service
        for number in range(14):
            tenant, role = rng.choice(((OURS, "user"), (THEIRS, "admin")))
            body = {
                "job_id": f"j{number}",
                "tenant_id": tenant,
                "gpu_count": rng.choice((0.5, 1, 2, 3, 4)),
                "priority": rng.choice((100, 500, 900)),
                "max_runtime_minutes": rng.choice((None, 5, 60)),
                "hold": not rng.randrange(8),
            }
            answer = await door.post("/api/v1/jobs", json=body, headers=as_role(role))
            assert answer.status_code == 201, answer.text
            if not rng.randrange(3):
                await service.trigger()
        for _ in range(2):
            for role in ("user", "viewer", "operator", "admin"):
                await compare(door, stub, as_role(role))
            await service.trigger()


async def compare(door: Door, stub: Any, headers: dict[str, str]) -> None:
    url, metadata = "/api/v1/jobs", [("authorization", headers["Authorization"])]
    listed = (await door.get(f"{url}?state=pending", headers=headers)).json()["jobs"]
    assert listed
    request = pb.ListJobsRequest(states=["pending"])
    over_grpc = {job.job_id: job for job in (await stub.ListJobs(request, metadata=metadata)).jobs}
    for job in listed:
        job_id = job["job_id"]
        asked = pb.GetJobStatusRequest(job_id=job_id)
        one = await stub.GetJobStatus(asked, metadata=metadata)
        why = (await door.get(f"{url}/{job_id}/why", headers=headers)).json()
        shown = (await door.get(f"{url}/{job_id}", headers=headers)).json()
        assert job["reason"] == why["reason"] == shown["reason"]
        for found in (over_grpc[job_id].reason, one.reason):
            assert (found.code, found.message) == (why["reason"]["code"], why["reason"]["message"])
