"""`secrets` of a submission: the job has them, nobody is shown them, whatever they look like."""

from typing import Any

import pytest

from tests.integration.auth.door import OURS, Door, a_door, a_token, as_role, bearer
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant

WORD = "unremarkableword"
JOB: dict[str, Any] = {
    "job_id": "j",
    "tenant_id": OURS,
    "name": f"run {WORD}",
    "command": ["python", "x.py", f"--speed={WORD}"],
    "environment": {"GREETING": f"hello {WORD}"},
    "secrets": {"PLAIN": WORD},
}


def a_box() -> Any:
    return a_door(leases=False, tenants=(Tenant(TenantId(OURS)),), gpus="sim:2xA100")


async def submitted(door: Door, **fields: Any) -> None:
    answer = await door.post("/api/v1/jobs", json=JOB | fields, headers=as_role("user"))
    assert answer.status_code == 201, answer.text
    assert WORD not in answer.text


@pytest.mark.parametrize("role", ["user", "admin"])
async def test_no_answer_has_the_value_and_its_owner_sees_the_name(role: str) -> None:
    async with a_box() as door:
        await submitted(door)
        await submitted(door, job_id="k", gpu_count=2)
        await door.box.tick(1000)
        urls = ["/api/v1/jobs", "/api/v1/jobs/j/events", "/api/v1/audit"]
        urls += [f"/api/v1/jobs/{j}{part}" for j in "jk" for part in ("", "/why", "/receipt")]
        urls += ["/api/v1/journal?commands=true"]
        for url in urls:
            answer = await door.get(url, headers=as_role(role))
            assert WORD not in answer.text, (url, answer.text)
        shown = (await door.get("/api/v1/jobs/j", headers=as_role("user"))).json()
        assert shown["secrets"] == ["PLAIN"]


async def test_the_job_has_it_and_so_has_a_rerun_of_its_owner() -> None:
    async with a_box() as door:
        await submitted(door)
        await door.box.run("j", 1000)
        answer = await door.post("/api/v1/jobs/j/rerun", headers=as_role("user"))
        assert answer.status_code == 201, answer.text
        await door.box.tick(2000)
        first, again = door.box.engine.launched
        for launch in (first, again):
            assert launch.env["PLAIN"] == WORD
            assert launch.argv[-1] == f"--speed={WORD}"
            assert launch.secrets == (WORD,)


async def test_a_rerun_of_somebody_else_has_it_not() -> None:
    async with a_box() as door:
        await submitted(door, name="run", command=["x"], environment={})
        await submitted(door, job_id="k", hold=True)
        await door.box.run("j", 1000)
        other = bearer(a_token("admin", [OURS], sub="eve"))
        answer = await door.post("/api/v1/jobs/j/rerun", headers=other)
        assert answer.status_code == 201, answer.text
        await door.box.tick(2000)
        assert "PLAIN" not in door.box.engine.launched[-1].env
        refused = await door.post("/api/v1/jobs/k/rerun", headers=other)
        assert refused.status_code == 409
        assert "contain a secret of its owner" in refused.text


@pytest.mark.parametrize(
    ("secrets", "remedy"),
    [
        ({"no name": WORD}, "letters, digits and _ only"),
        ({"PLAIN": ""}, "must not be empty"),
        ({"GREETING": WORD}, "give it once"),
        ({"PLAIN": [WORD]}, "must be text"),
        ({"PLAIN": WORD + "\0"}, "NUL"),
        (WORD, "must be an object with names and values"),
        ({"PLAIN": WORD * 20_000}, "must have at most"),
    ],
)
async def test_a_refusal_does_not_repeat_it(secrets: Any, remedy: str) -> None:
    async with a_box() as door:
        body = JOB | {"secrets": secrets}
        answer = await door.post("/api/v1/jobs", json=body, headers=as_role("user"))
        assert answer.status_code == 422
        assert remedy in answer.text
        assert WORD not in answer.text
