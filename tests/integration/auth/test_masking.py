"""Secrets of a job are shown to nobody, wherever they stand, and a refusal does not repeat them."""

from typing import Any

import pytest

from tests.integration.auth.door import OURS, a_door, as_role
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant

SECRETS = ("hunter2-hunter2", "ghp_" + "aB1" * 12, "w4ndb-k3y-99")
JOB: dict[str, Any] = {
    "job_id": "j",
    "tenant_id": OURS,
    "name": f"run {SECRETS[2]}",
    "command": ["python", "x.py", "--password", SECRETS[0], "--wandb", SECRETS[2]],
    "args": [f"https://me:{SECRETS[0]}@example.org/?token={SECRETS[1]}"],
    "environment": {"WANDB_API_KEY": SECRETS[2], "URL": f"redis://:{SECRETS[0]}@h/0", "SEED": "1"},
    "params": {"token": [SECRETS[1]]},
}


@pytest.mark.parametrize("role", ["user", "viewer", "admin"])
async def test_no_answer_has_a_secret_of_a_job(role: str) -> None:
    async with a_door(leases=False, tenants=(Tenant(TenantId(OURS)),), gpus="sim:1xA100") as door:
        for job_id in ("j", "k"):
            body = JOB | {"job_id": job_id}
            answer = await door.post("/api/v1/jobs", json=body, headers=as_role("user"))
            assert answer.status_code == 201, answer.text
        await door.box.tick(1000)
        urls = ["/api/v1/jobs", "/api/v1/events?after=0", "/api/v1/gpus", "/api/v1/audit"]
        urls += [f"/api/v1/jobs/{j}.1{part}" for j in "jk" for part in ("", "/why", "/receipt")]
        urls += ["/api/v1/journal?commands=true", "/api/v1/jobs/j.1/events"]
        headers = as_role("admin") if role == "admin" else as_role(role)
        seen = []
        for url in urls:
            if url.startswith("/api/v1/events"):
                continue  # without end; what it tells of a job is in its history
            answer = await door.get(url, headers=headers)
            seen.append(answer.status_code)
            found = [secret for secret in SECRETS if secret in answer.text]
            assert found == [], (url, answer.text)
        assert seen.count(200) >= len(seen) - 3
        shown = (await door.get("/api/v1/jobs/j.1", headers=headers)).json()
        assert shown["command"][:3] == ["python", "x.py", "--password"]
        # Variables are the owner's, and those who look after the tenant's jobs.
        assert shown["environment"].get("SEED") == (None if role == "viewer" else "1")


async def test_the_job_itself_runs_with_what_was_given() -> None:
    async with a_door(leases=False, tenants=(Tenant(TenantId(OURS)),), gpus="sim:1xA100") as door:
        await door.post("/api/v1/jobs", json=JOB, headers=as_role("user"))
        await door.box.run("j.1", 1000)
        (launch,) = door.box.engine.launched
        assert SECRETS[0] in launch.argv
        assert launch.env["WANDB_API_KEY"] == SECRETS[2]


async def test_a_refusal_does_not_repeat_a_secret() -> None:
    async with a_door() as door:
        body = JOB | {"gpu_count": -1, "command": f"x --password {SECRETS[0]}"}
        answer = await door.post("/api/v1/jobs", json=body, headers=as_role("user"))
        assert answer.status_code == 422
        assert SECRETS[0] not in answer.text
        body = JOB | {"environment": {f"A=b TOKEN={SECRETS[0]}": "x"}}
        answer = await door.post("/api/v1/jobs", json=body, headers=as_role("user"))
        assert answer.status_code == 422
        assert SECRETS[0] not in answer.text
