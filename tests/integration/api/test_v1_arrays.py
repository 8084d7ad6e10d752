"""GET /api/v1/arrays: whole arrays and sweeps, while they run and when they are over."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.integration.api.http import Api, an_api, error_of
from tests.integration.api.test_v1_reruns import a_failed_array
from tests.integration.api.test_v1_selection import JOBS, select, submit
from tests.integration.auth.door import OURS, THEIRS, a_door, as_role
from tgpu.core.model.lifecycle import JobState

ARRAYS = "/api/v1/arrays"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(cost_per_gpu_hour=2) as made:
        yield made


async def test_an_array_that_is_over_is_told_as_a_whole(api: Api) -> None:
    array_id = await a_failed_array(api, name="sweep", user="ada")
    body = (await api.get(f"{ARRAYS}/last")).json()
    assert (body["array_id"], body["name"], body["user"]) == (array_id, "sweep", "ada")
    assert (body["state"], body["is_over"], body["total"]) == ("failed", True, 4)
    assert body["states"] == {"completed": 2, "failed": 2}
    assert (body["exit_codes"], body["exit_code"]) == ({"0": 2, "3": 2}, 3)
    assert (body["failed"], body["failed_indexes"]) == ([f"{array_id}.1", f"{array_id}.2"], "1-2")
    assert (body["indexes"], body["params"]) == ("1-4", {"lr": ["1", "2", "3", "4"]})
    assert (body["next_waiting"], body["ended_at"] is None, body["cost"]) == (None, False, 0)
    new = (await select(api, "rerun", array_id))["reruns"][0]["job_id"]
    again = (await api.get(f"{ARRAYS}/{new}")).json()
    assert (again["rerun_of"], again["state"], again["is_over"]) == (array_id, "pending", False)
    assert again["next_waiting"] == f"{new}.1"


async def test_waiting_for_an_array_ends_with_its_last_element(api: Api) -> None:
    array_id = await submit(api, array={"indexes": "1-2"})
    still = await api.get(f"{ARRAYS}/{array_id}/wait", params={"timeout": 0})
    assert still.json()["is_over"] is False
    asked = asyncio.create_task(api.get(f"{ARRAYS}/{array_id}/wait", params={"timeout": 60}))
    await select(api, "cancel", f"{array_id}.1")
    assert not asked.done()
    await select(api, "cancel", f"{array_id}.2")
    body = (await asked).json()
    assert (body["state"], body["exit_codes"]) == ("cancelled", {"cancelled": 2})
    assert body["exit_code"] == 143


async def test_what_takes_one_job_says_that_this_is_an_array(api: Api) -> None:
    array_id = await submit(api, array={"indexes": "1-2"})
    for path in (f"{JOBS}/{array_id}", f"{JOBS}/last", f"{JOBS}/{array_id}/logs"):
        message = error_of(await api.get(path), 404, "JOB_NOT_FOUND")["message"]
        assert f"{array_id} is an array: name one of its jobs, such as {array_id}.2" in message
    error_of(await api.get(f"{ARRAYS}/nobody"), 404, "NOT_FOUND")


async def test_last_after_an_array_is_the_array(api: Api) -> None:
    array_id = await submit(api, array={"indexes": "1-3"})
    answer = await select(api, "cancel", "last")
    assert answer["message"] == f"cancelled 3 jobs of array {array_id}: 3 waiting"
    await api.box.until(f"{array_id}.1", JobState.CANCELLED)


async def test_an_array_of_another_tenant_is_none() -> None:
    async with a_door() as door:
        for tenant in (OURS, THEIRS):
            body = {"job_id": f"{tenant}-a", "tenant_id": tenant, "array": {"indexes": "1-2"}}
            await door.post(JOBS, json=body, headers=as_role("admin"))
        ours = await door.get(f"{ARRAYS}/last", headers=as_role("operator", OURS))
        assert ours.json()["array_id"] == f"{OURS}-a"
        theirs = await door.get(f"{ARRAYS}/{THEIRS}-a", headers=as_role("user"))
        error_of(theirs, 404, "NOT_FOUND")
        seen = await door.get(f"{JOBS}/{THEIRS}-a", headers=as_role("user"))
        assert "is an array" not in error_of(seen, 404, "JOB_NOT_FOUND")["message"]
