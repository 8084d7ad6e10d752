"""A gang over two nodes: every place that shows where a job is shows all of its workers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.api.http import Api, an_api
from tgpu.core.model.events import JobMoved
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import Move
from tgpu.telemetry.job_log import moved_fields

JOBS = "/api/v1/jobs"
ALL = ["b/0", "b/1", "local/0", "local/1"]


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(gpus="sim:2xA100", nodes={"b": "sim:2xA100"}) as made:
        yield made


@pytest.fixture
async def gang(api: Api) -> str:
    answer = await api.post(JOBS, json={"command": ["t"], "workers": 2, "gpu_count": 2})
    assert answer.status_code == 201, answer.text
    job_id = str(answer.json()["job_id"])
    await api.box.run(job_id)
    return job_id


async def get(api: Api, path: str) -> Any:
    answer = await api.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_job_names_the_gpus_of_all_its_workers(api: Api, gang: str) -> None:
    job = await get(api, f"{JOBS}/{gang}")
    assert sorted(job["gpu_names"]) == ALL
    assert job["gpu_text"] == "b/0-1,local/0-1"
    assert (job["node"], job["gpus"]) == (job["placements"][0]["node"], [0, 1])


async def test_why_says_where_all_of_it_runs(api: Api, gang: str) -> None:
    why = await get(api, f"{JOBS}/{gang}/why")
    assert why["reason"]["message"] == "runs on GPU b/0-1,local/0-1"


async def test_its_receipt_names_all_gpus_of_each_attempt(api: Api, gang: str) -> None:
    (attempt,) = (await get(api, f"{JOBS}/{gang}/receipt"))["attempts"]
    assert sorted(attempt["gpu_names"]) == ALL
    assert attempt["gpu_text"] == "b/0-1,local/0-1"
    assert attempt["gpus"] == [0, 1]


async def test_its_events_name_all_gpus(api: Api, gang: str) -> None:
    events = (await get(api, f"{JOBS}/{gang}/events"))["events"]
    started = next(event for event in events if event["kind"] == "job_started")
    assert sorted(started["data"]["gpu_names"]) == ALL
    assert started["data"]["gpus"] == [0, 1]


async def test_the_job_log_names_all_gpus(api: Api, gang: str) -> None:
    live = api.box.service.reads.job(JobId(gang))
    assert live is not None
    fields = moved_fields(live, JobMoved(0, live.job.job_id, Move.START, live.progress))
    assert sorted(fields["gpu_names"]) == ALL
    assert fields["gpu_ids"] == [0, 1]


async def test_every_gpu_of_every_worker_has_the_job(api: Api, gang: str) -> None:
    gpus = (await get(api, "/api/v1/gpus"))["gpus"]
    assert [gpu["gpu_name"] for gpu in gpus] == ["local/0", "local/1", "b/0", "b/1"]
    assert [gpu["jobs"] for gpu in gpus] == [[gang]] * 4


async def test_who_waits_for_it_is_told_of_all_its_gpus(api: Api, gang: str) -> None:
    answer = await api.post(JOBS, json={"command": ["t"], "gpu_count": 1})
    await api.box.tick()
    (blocker,) = (await get(api, f"{JOBS}/{answer.json()['job_id']}/why"))["blockers"]
    assert sorted(blocker["gpu_names"]) == ALL


async def test_a_gpu_of_the_same_index_on_another_node_does_not_have_the_job(api: Api) -> None:
    answer = await api.post(JOBS, json={"command": ["t"], "nodes": ["b"]})
    await api.box.run(answer.json()["job_id"])
    gpus = (await get(api, "/api/v1/gpus"))["gpus"]
    assert not any(gpu["jobs"] for gpu in gpus if gpu["node"] == "local")
