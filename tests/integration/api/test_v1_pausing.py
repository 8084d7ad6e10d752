"""Pausing and resuming jobs over REST, with an engine that notes what it is told."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.api.http import Api, an_api, error_of
from tests.unit.service.eventually import eventually
from tests.unit.service.world import a_box
from tgpu.core.model.lifecycle import JobState
from tgpu.engines.fake import FakeEngine
from tgpu.store.memory import MemoryStore

JOBS = "/api/v1/jobs"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(gpus="sim:2xA100", cost_per_gpu_hour=3.0) as made:
        yield made


async def submit(api: Api, **fields: Any) -> str:
    answer = await api.post(JOBS, json={"command": ["t"], **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


async def a_running_job(api: Api, **fields: Any) -> str:
    job_id = await submit(api, **fields)
    await api.box.run(job_id)
    return job_id


async def act(api: Api, job_id: str, action: str) -> Any:
    answer = await api.post(f"{JOBS}/{job_id}/{action}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def get(api: Api, path: str) -> Any:
    answer = await api.get(f"{JOBS}/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def at(api: Api, ms: int) -> None:
    await api.box.tick(ms)


async def test_a_paused_job_stands_still_and_every_answer_says_that_it_keeps_its_gpus(
    api: Api,
) -> None:
    job_id = await a_running_job(api)
    key = await api.box.key(job_id)
    answer = await act(api, job_id, "pause")
    assert answer["status"] == "running"
    assert answer["message"] == (
        "Job is paused: it keeps its GPUs and memory, which are charged, and its time limit "
        "keeps running"
    )
    await eventually(lambda: api.box.engine.paused == {key}, "the engine to be told")
    await act(api, job_id, "pause")  # told twice
    await at(api, 60_000)
    job = await get(api, job_id)
    assert job["state"] == "running"
    assert job["paused_at"] is not None
    assert job["paused_seconds"] == 60
    why = await get(api, f"{job_id}/why")
    assert "and keeps GPU 0" in why["reason"]["message"]
    assert why["reason"]["remedy"] == f"tgpu resume {job_id}"
    assert (await act(api, "last", "resume"))["message"] == "Job continues"
    await eventually(lambda: not api.box.engine.paused, "the engine to be told")
    job = await get(api, job_id)
    assert (job["paused_at"], job["paused_by"], job["paused_seconds"]) == (None, None, 60)


async def test_it_is_charged_and_the_receipt_says_what_of_it_was_paused(api: Api) -> None:
    job_id = await a_running_job(api)
    await act(api, job_id, "pause")
    await at(api, 1_800_000)
    await act(api, job_id, "resume")
    await at(api, 3_600_000)
    api.box.engine.finish(await api.box.key(job_id))
    await api.box.until(job_id, JobState.COMPLETED)
    found = await get(api, f"{job_id}/receipt")
    assert (found["run_seconds"], found["paused_seconds"]) == (3600, 1800)
    assert (found["gpu_hours"], found["cost"]) == (1, 3)
    assert found["attempts"][0]["paused_seconds"] == 1800


async def test_a_paused_job_is_cancelled_like_any_other(api: Api) -> None:
    job_id = await a_running_job(api)
    await act(api, job_id, "pause")
    assert (await api.delete(f"{JOBS}/{job_id}")).status_code == 200
    await api.box.until(job_id, JobState.CANCELLED)
    job = await get(api, job_id)
    assert job["paused_at"] is None


async def test_who_waits_for_it_is_told_that_it_is_paused(api: Api) -> None:
    job_id = await a_running_job(api, gpu_count=2)
    waiting = await submit(api)
    await act(api, job_id, "pause")
    await at(api, 1000)
    why = await get(api, f"{waiting}/why")
    assert [(one["job_id"], one["paused"]) for one in why["blockers"]] == [(job_id, True)]


async def test_what_does_not_run_is_refused_with_what_to_do(api: Api) -> None:
    job_id = await submit(api)

    async def refused(name: str, action: str) -> str:
        answer = await api.post(f"{JOBS}/{name}/{action}")
        return str(error_of(answer, 409, "CONFLICT")["message"])

    assert await refused(job_id, "pause") == (
        f"job {job_id} waits, and only a running job can be paused; "
        f"for a waiting job: tgpu hold {job_id}"
    )
    assert f"tgpu release {job_id}" in await refused(job_id, "resume")
    await api.box.run(job_id)
    assert await refused(job_id, "resume") == f"job {job_id} is not paused: it runs"
    api.box.engine.stops = False
    await api.delete(f"{JOBS}/{job_id}")
    assert (
        await refused(job_id, "pause") == f"job {job_id} is being stopped, so it cannot be paused"
    )
    api.box.engine.finish(await api.box.key(job_id))
    await api.box.until(job_id, JobState.CANCELLED)
    assert "is over" in await refused(job_id, "pause")
    lease = await submit(api, command=[])
    await at(api, 1000)
    assert "is a lease" in await refused(lease, "pause")
    assert (await api.post(f"{JOBS}/nobody/pause")).status_code == 404


async def test_an_array_is_paused_by_one_command_and_the_rest_is_counted(api: Api) -> None:
    array_id = await submit(api, array={"indexes": "1-3"})
    await at(api, 0)
    for number in (1, 2):
        await api.box.until(f"{array_id}.{number}", JobState.RUNNING)
    answer = await act(api, array_id, "pause")
    assert answer["message"] == (
        f"paused 2 jobs of array {array_id}: they keep their GPUs and memory, which are charged, "
        "and time limits keep running; left alone: 1 not running: only running jobs can be "
        "paused and resumed"
    )
    body = {"action": "resume", "jobs": [array_id]}
    answer = (await api.post(f"{JOBS}/select", json=body)).json()
    assert answer["changed"] == 2
    assert answer["message"].startswith(f"resumed 2 jobs of array {array_id}; left alone: 1 not")


async def test_events_tell_of_both(api: Api) -> None:
    job_id = await a_running_job(api)
    await act(api, job_id, "pause")
    await act(api, job_id, "resume")
    events = await get(api, f"{job_id}/events")
    kinds = [event["kind"] for event in events["events"]]
    assert kinds[-2:] == ["job_paused", "job_resumed"]


async def test_after_a_restart_the_engine_is_told_again() -> None:
    """As if the service had been killed between its record and the engine."""
    store, engine = MemoryStore(), FakeEngine()
    async with an_api(store=store, engine=engine) as api:
        paused, resumed = [await a_running_job(api) for _ in range(2)]
        await act(api, paused, "pause")
        await act(api, resumed, "pause")
        await at(api, 1000)
        await act(api, resumed, "resume")
        key, other = await api.box.key(paused), await api.box.key(resumed)
        await eventually(lambda: engine.paused == {key}, "the engine to be told")
    engine.paused = {other}
    async with a_box(store=store, engine=engine) as box:
        await eventually(lambda: engine.paused == {key}, "the engine to be told again")
        assert (await box.service.job(paused)).progress.paused_at is not None
