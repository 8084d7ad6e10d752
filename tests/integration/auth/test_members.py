"""What members of a tenant reach of each other's jobs by ways around: arrays by their names,
dependencies, reservations."""

from typing import Any

import pytest

from tests.integration.auth.door import OURS, THEIRS, Door, a_door
from tests.integration.auth.test_owners import submitted, tenants, who
from tgpu.core.model.tenant import MembersSee

HIDDEN = MembersSee.NOTHING


async def edited(door: Door, name: str, headers: dict[str, str]) -> Any:
    return await door.patch(f"/api/v1/jobs/{name}", json={"priority": 1}, headers=headers)


async def rerun(door: Door, name: str, headers: dict[str, str]) -> Any:
    body = {"action": "rerun", "jobs": [name]}
    return await door.post("/api/v1/jobs/select", json=body, headers=headers)


@pytest.mark.parametrize("act", [edited, rerun])
@pytest.mark.parametrize(
    "headers", [who("bob"), who("sam", "user", THEIRS)], ids=["member", "other tenant"]
)
async def test_an_array_that_is_hidden_is_as_one_that_is_not_there(
    act: Any, headers: dict[str, str]
) -> None:
    async with a_door(tenants=tenants(HIDDEN)) as door:
        await submitted(door, "ada", "hers", array={"indexes": "1-3"}, hold=True)
        found, none = await act(door, "hers", headers), await act(door, "none", headers)
        assert found.status_code == none.status_code == 404
        assert found.text.replace("hers", "none") == none.text


@pytest.mark.parametrize("action", ["cancel", "hold", "rerun"])
@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize("order", [1, -1])
async def test_a_hidden_job_among_others_is_as_one_that_is_not_there(
    action: str, is_over: bool, order: int
) -> None:
    async with a_door(tenants=tenants(HIDDEN)) as door:
        await submitted(door, "ada", "hers", hold=True)
        if is_over:
            await door.delete("/api/v1/jobs/hers", headers=who("ada"))
        for headers in (who("bob"), who("sam", "user", THEIRS)):
            found, none = [
                await door.post(
                    "/api/v1/jobs/select",
                    json={"action": action, "jobs": [name, "nobodys"][::order]},
                    headers=headers,
                )
                for name in ("hers", "none")
            ]
            assert found.status_code == none.status_code == 404
            assert found.text.replace("hers", "none") == none.text


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/jobs/estimate"])
@pytest.mark.parametrize("name", ["hers", "array", "array.1"])
async def test_nobody_waits_for_a_hidden_job_of_another_member(path: str, name: str) -> None:
    async with a_door(tenants=tenants(HIDDEN)) as door:
        await submitted(door, "ada", "hers", hold=True)
        await submitted(door, "ada", "array", array={"indexes": "1-3"}, hold=True)
        bodies = [{"tenant_id": OURS, "after": [{"job_id": job_id}]} for job_id in (name, "none")]
        found, none = [await door.post(path, json=body, headers=who("bob")) for body in bodies]
        assert found.status_code == none.status_code == 422
        assert found.text.replace(name, "none") == none.text
        own = await door.post(path, json=bodies[0], headers=who("ada"))
        assert own.status_code in (200, 201), own.text


async def test_no_edit_makes_a_job_wait_for_a_hidden_one() -> None:
    async with a_door(tenants=tenants(HIDDEN)) as door:
        await submitted(door, "ada", "hers", hold=True)
        await submitted(door, "bob", "his", hold=True)
        body = {"after": [{"job_id": "hers"}]}
        answer = await door.patch("/api/v1/jobs/his", json=body, headers=who("bob"))
        assert answer.status_code == 422
        assert "there is no such job" in answer.text


async def reserved(door: Door, name: str) -> None:
    body = {"id": "hers", "tenant_id": OURS, "gpus": 1, "minutes": 5}
    made = await door.post("/api/v1/reservations", json=body, headers=who(name))
    assert made.status_code == 201, made.text


async def test_a_member_gives_back_nobody_elses_reservation() -> None:
    async with a_door(tenants=tenants()) as door:
        await reserved(door, "ada")
        await submitted(door, "ada", "waits", reservation="hers", hold=True)
        url = "/api/v1/reservations/hers"
        answer = await door.delete(url, headers=who("bob"))
        assert answer.status_code == 403, answer.text
        assert f"reservation {OURS}:hers is ada's: only ada" in answer.json()["error"]["message"]
        assert (await door.get("/api/v1/jobs/waits", headers=who("ada"))).json()["held"]
        assert (await door.get(url, headers=who("bob"))).json()["jobs"] == ["waits"]


@pytest.mark.parametrize("headers", [who("ada"), who("pi", "admin"), who("op", "operator", "*")])
async def test_who_may_cancel_a_job_may_give_back_a_reservation(headers: dict[str, str]) -> None:
    async with a_door(tenants=tenants()) as door:
        await reserved(door, "ada")
        answer = await door.delete(f"/api/v1/reservations/{OURS}:hers", headers=headers)
        assert answer.status_code == 200, answer.text


async def test_a_reservation_names_no_hidden_job() -> None:
    async with a_door(tenants=tenants(HIDDEN)) as door:
        await reserved(door, "ada")
        await submitted(door, "ada", "waits", reservation="hers", hold=True)
        await submitted(door, "bob", "his", reservation="hers", hold=True)
        for name, jobs in (("bob", ["his"]), ("ada", ["waits"])):
            shown = await door.get("/api/v1/reservations/hers", headers=who(name))
            listed = await door.get("/api/v1/reservations", headers=who(name))
            assert shown.json()["jobs"] == jobs
            assert listed.json()["reservations"][0]["jobs"] == jobs
