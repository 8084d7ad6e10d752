"""Ids of reservations tell a tenant nothing of those of others."""

from typing import Any

import pytest

from tests.integration.auth.door import OURS, THEIRS, Door, a_door, as_role


async def reserve(door: Door, tenant: str, name: str | None = None, role: str = "user") -> Any:
    body: dict[str, Any] = {"tenant_id": tenant, "gpus": 1, "minutes": 5}
    headers = as_role(role, tenant) if role == "user" else as_role(role)
    return await door.post(
        "/api/v1/reservations", json=body | ({"id": name} if name else {}), headers=headers
    )


@pytest.mark.parametrize("theirs", ["user", "admin"])
async def test_a_name_that_another_tenant_has_is_free(theirs: str) -> None:
    async with a_door() as door:
        await reserve(door, THEIRS, "demo", theirs)
        made = await reserve(door, OURS, "demo")
        assert (made.status_code, made.json()["id"]) == (201, f"{OURS}:demo")
        again = await reserve(door, OURS, "demo")
        assert again.status_code == 409
        assert f"{OURS}:demo already exists" in again.text


async def test_numbers_are_counted_for_each_tenant() -> None:
    async with a_door() as door:
        for tenant in (THEIRS, THEIRS, OURS):
            made = await reserve(door, tenant)
        assert made.json()["id"] == f"{OURS}:r-1"
        assert (await reserve(door, OURS, role="admin")).json()["id"] == "r-1"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("name", ["demo", f"{THEIRS}:demo"])
async def test_that_of_another_is_answered_like_none(method: str, name: str) -> None:
    async with a_door() as door:
        await reserve(door, THEIRS, "demo")
        found = await door.request(method, f"/api/v1/reservations/{name}", headers=as_role("user"))
        none = await door.request(method, "/api/v1/reservations/none", headers=as_role("user"))
        assert found.status_code == none.status_code == 404
        assert found.text.replace(name, "none") == none.text


async def test_its_own_is_found_by_its_short_name() -> None:
    async with a_door() as door:
        await reserve(door, THEIRS, "demo")
        await reserve(door, OURS, "demo")
        headers = as_role("user")
        shown = await door.get("/api/v1/reservations/demo", headers=headers)
        assert shown.json()["tenant_id"] == OURS
        body = {"job_id": "j", "tenant_id": OURS, "gpu_count": 1, "reservation": "demo"}
        assert (await door.post("/api/v1/jobs", json=body, headers=headers)).status_code == 201
        job = (await door.get("/api/v1/jobs/j", headers=headers)).json()
        assert job["reservation"] == f"{OURS}:demo"
        again = await door.post("/api/v1/jobs", json=body, headers=headers)
        assert again.status_code == 200  # the same request is answered as before
        gone = await door.delete("/api/v1/reservations/demo", headers=headers)
        assert gone.json()["id"] == f"{OURS}:demo"
        left = await door.get("/api/v1/reservations", headers=as_role("admin"))
        assert [each["id"] for each in left.json()["reservations"]] == [f"{THEIRS}:demo"]


async def test_a_job_cannot_name_one_of_another_tenant() -> None:
    async with a_door() as door:
        await reserve(door, THEIRS, "demo")
        answers = []
        for name in (f"{THEIRS}:demo", "nobodys"):
            body = {"tenant_id": OURS, "gpu_count": 1, "reservation": name}
            answer = await door.post("/api/v1/jobs", json=body, headers=as_role("user"))
            answers.append(answer.text.replace(name, "NAME"))
        assert answers[0] == answers[1]
