"""Jobs on an engine that binds by itself, as people see them."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.api.http import Api, an_api
from tests.unit.service.eventually import eventually
from tgpu.core.model.ids import JobId
from tgpu.engines.fake_cluster import FakeCluster


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(engine=FakeCluster(nodes={"far": 8}, starts=False)) as made:
        yield made


def cluster(api: Api) -> FakeCluster:
    engine = api.box.engine
    assert isinstance(engine, FakeCluster)
    return engine


async def why(api: Api, job_id: str) -> str:
    return str((await api.get(f"/api/v1/jobs/{job_id}/why")).json()["reason"]["message"])


async def test_a_job_is_told_from_being_taken_to_its_end(api: Api) -> None:
    body = {"command": ["t"], "gpu_count": 2}
    job_id = (await api.post("/api/v1/jobs", json=body)).json()["job_id"]
    service = api.box.service
    await api.box.tick()
    await eventually(lambda: service.standing_of(JobId(job_id)), "it to be taken")
    assert await why(api, job_id) == (
        "the engine has accepted it, but not started it: no node of the cluster has room"
    )
    cluster(api).bind()
    await eventually(lambda: service.place_of(JobId(job_id)), "its place")
    await api.box.run(job_id)
    assert await why(api, job_id) == "runs on node far (GPU 0, 1), as fake-1"
    job = (await api.get(f"/api/v1/jobs/{job_id}")).json()
    assert (job["node"], job["gpus"]) == ("far", [0, 1])

    cluster(api).silence("far")
    await eventually(lambda: service.standing_of(JobId(job_id)), "the silence to be noted")
    assert await why(api, job_id) == (
        "cannot be reached, may still run, and keeps its GPUs: node far does not answer"
    )
    cluster(api).hear("far")
    cluster(api).finish(await api.box.key(job_id))
    job = (await api.get(f"/api/v1/jobs/{job_id}/wait")).json()
    assert (job["state"], job["node"], job["gpus"]) == ("completed", "far", [0, 1])


async def test_the_nodes_of_an_engine_are_shown_and_said_to_be_its_own(api: Api) -> None:
    shown = {node["name"]: node for node in (await api.get("/api/v1/nodes")).json()["nodes"]}
    assert (shown["local"]["source"], shown["far"]["source"]) == ("local", "engine")
    assert (shown["far"]["engine"], len(shown["far"]["gpus"])) == ("fake cluster", 8)
    assert (await api.get("/api/v1/nodes/far")).json() == shown["far"]
    cluster(api).give_to_others("far", 3)
    await api.box.service.engine_nodes.look()
    gpus = (await api.get("/api/v1/gpus")).json()["gpus"]
    assert sum(g["status"] == "foreign" for g in gpus if g["node"] == "far") == 3
