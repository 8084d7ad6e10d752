"""Why a job waits is told to its owner, without the names of others' jobs, and with a way out."""

from tests.integration.auth.door import OURS, THEIRS, a_door, as_role


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
