"""Arrays and selections run again: as arrays of their own, and nothing twice."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.api.http import Api, an_api, error_of
from tests.integration.api.test_v1_selection import JOBS, jobs_of, select, submit
from tests.unit.service.world import FailingStore
from tgpu.core.model.lifecycle import JobState


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api() as made:
        yield made


async def a_failed_array(api: Api, failed: int = 2, **fields: Any) -> str:
    """Four elements with parameters, of which the first have failed and the rest completed."""
    body = {"command": ["t", "{lr}"], "params": {"lr": ["1", "2", "3", "4"]}, **fields}
    array_id = await submit(api, **body)
    await api.box.tick()
    for number in range(1, 5):
        job_id = f"{array_id}.{number}"
        await api.box.until(job_id, JobState.RUNNING)
        is_failed = number <= failed
        api.box.engine.finish(await api.box.key(job_id), exit_code=3 if is_failed else 0)
        await api.box.until(job_id, JobState.FAILED if is_failed else JobState.COMPLETED)
    return array_id


async def test_what_failed_of_an_array_becomes_an_array_of_its_own(api: Api) -> None:
    array_id = await a_failed_array(api)
    answer = await select(api, "rerun", array_id)
    new = answer["reruns"][0]["job_id"]
    assert answer["message"] == (
        f"array {new} queued: runs 2 jobs of array {array_id} again; left alone: 2 completed"
    )
    assert answer["job_ids"] == [f"{new}.1", f"{new}.2"]
    again = await jobs_of(api, array_id=new)
    assert {job["rerun_of"]: (job["array"]["index"], job["params"]) for job in again} == {
        f"{array_id}.1": (1, {"lr": "1"}),
        f"{array_id}.2": (2, {"lr": "2"}),
    }
    assert [job["command"] for job in again] == [["t", "2"], ["t", "1"]]
    assert len(await jobs_of(api, array_id=array_id)) == 4


async def test_nothing_is_run_again_twice_unless_it_is_asked_for(api: Api) -> None:
    array_id = await a_failed_array(api)
    new = (await select(api, "rerun", array_id))["reruns"][0]["job_id"]
    answer = await api.post(f"{JOBS}/select", json={"action": "rerun", "jobs": [array_id]})
    assert error_of(answer, 409, "CONFLICT")["message"] == (
        f"no job to run again: 2 rerun already, as {new} (--again reruns them once more), "
        "2 completed"
    )
    assert (await select(api, "rerun", array_id, again=True))["changed"] == 2


async def test_two_who_ask_at_once_get_one_rerun(api: Api) -> None:
    array_id = await a_failed_array(api)
    body = {"action": "rerun", "jobs": [array_id]}
    answers = await asyncio.gather(*(api.post(f"{JOBS}/select", json=body) for _ in range(3)))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409]


async def test_an_array_keeps_its_limit_and_its_indexes(api: Api) -> None:
    array_id = await submit(api, array={"indexes": "8-12", "max_running": 1})
    await select(api, "cancel", array_id)
    answer = await select(api, "rerun", array_id, states=["cancelled"])
    new = answer["reruns"][0]["job_id"]
    assert answer["job_ids"] == [f"{new}.{number:02}" for number in range(8, 13)]
    arrays = [job["array"] for job in await jobs_of(api, array_id=new)]
    assert {(array["array_id"], array["max_running"]) for array in arrays} == {(new, 1)}
    assert await api.box.tick() == [f"{new}.08"]


async def test_jobs_that_are_named_are_run_again_whatever_became_of_them(api: Api) -> None:
    array_id = await a_failed_array(api)
    job_id = await submit(api)
    one = await select(api, "rerun", job_id)
    assert one["message"] == f"job {one['job_ids'][0]} queued: runs job {job_id} again"
    element = await select(api, "rerun", f"{array_id}.4")
    (new,) = element["job_ids"]
    assert element["message"] == f"job {new} queued: runs job {array_id}.4 again"
    (found,) = await jobs_of(api, array_id=new)
    assert (found["job_id"], found["array"]["index"]) == (new, 4)


async def test_what_failed_of_ones_own_is_chosen_by_time_and_cause() -> None:
    store = FailingStore()
    async with an_api(store=store) as api:
        array_id = await a_failed_array(api, user="ada")
        assert (await select(api, "rerun", user="bob"))["message"] == "no job to run again"
        assert (await select(api, "rerun", all=True, failures=["xid"]))["changed"] == 0
        commits = len(store.commits)
        answer = await select(api, "rerun", user="ada", failures=["user_error"])
        assert [rerun["rerun_of"] for rerun in answer["reruns"]] == [array_id]
        assert len(store.commits) == commits + 1
        await api.box.tick(10_000_000)
        assert (await select(api, "rerun", all=True, ended_within_seconds=60, again=True))[
            "changed"
        ] == 0


async def test_an_array_of_which_nothing_failed_says_how_to_run_it_again(api: Api) -> None:
    array_id = await a_failed_array(api, failed=0)
    answer = await api.post(f"{JOBS}/select", json={"action": "rerun", "jobs": [array_id]})
    assert error_of(answer, 409, "CONFLICT")["message"] == (
        "no job to run again: 4 completed; choose them by their state, as in: "
        "tgpu rerun --state completed …"
    )
