"""/api/v1: figures of the cluster, failures with their causes, receipts of jobs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.api.http import Api, an_api, error_of
from tests.integration.auth.door import OURS, THEIRS, a_door, as_role
from tgpu.core.model.cause import Evidence
from tgpu.engines.fake import FakeEngine


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(gpus="sim:2xA100") as made:
        yield made


async def submit(api: Api, **fields: Any) -> str:
    answer = await api.post("/api/v1/jobs", json={"command": ["t"], **fields})
    assert answer.status_code == 201, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


async def metrics(api: Api) -> dict[str, Any]:
    answer = await api.get("/api/v1/cluster/metrics")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_what_waits_is_counted_by_priority(api: Api) -> None:
    first = await submit(api, gpu_count=2, priority=2000)
    await api.box.run(first)
    for priority in (1000, 999, 500, 499):
        await submit(api, priority=priority)
    await submit(api, priority=100, hold=True)
    found = await metrics(api)
    assert found["waiting"] == {"high": 1, "normal": 2, "low": 2}
    assert (found["total_jobs"], found["ended_jobs"]) == (6, 0)


async def test_how_long_jobs_ran_is_the_mean_and_the_median(api: Api) -> None:
    assert (await metrics(api))["runs"] == {
        "count": 0,
        "mean_seconds": None,
        "median_seconds": None,
    }
    for number, ends_at in enumerate((1_000, 3_000, 9_000)):
        key = await api.box.run(await submit(api), now=10_000 * number)
        await api.box.tick(10_000 * number + ends_at)
        api.box.engine.finish(key)
        await api.get(f"/api/v1/jobs/{key.job_id}/wait")
    runs = (await metrics(api))["runs"]
    assert (runs["count"], runs["median_seconds"]) == (3, 3.0)
    assert runs["mean_seconds"] == pytest.approx(13 / 3, abs=0.001)


async def test_how_busy_gpus_were_is_the_mean_and_the_peak(api: Api) -> None:
    for percent in (20, 60):
        api.box.gpus.set(1, utilisation_percent=percent)
        await api.box.service.gpu_monitor.look()
    await api.post("/api/v1/gpus/1/pause", json={"reason": "fans"})
    idle, busy = (await metrics(api))["gpus"]
    assert (idle["peak_percent"], idle["paused"]) == (0, None)
    assert (busy["peak_percent"], busy["paused"]) == (60, "fans")
    assert 0 < busy["mean_percent"] < 60


async def test_others_jobs_are_not_counted_for_a_tenant_s_viewer() -> None:
    async with a_door() as door:
        await door.submit("mine", OURS)
        await door.submit("not-mine", THEIRS)
        answer = await door.get("/api/v1/cluster/metrics", headers=as_role("viewer"))
        assert answer.json()["total_jobs"] == 1
        assert sum(answer.json()["waiting"].values()) == 1
        refused = await door.get("/api/v1/jobs/not-mine/receipt", headers=as_role("viewer"))
        error_of(refused, 404, "JOB_NOT_FOUND")


async def test_a_failure_has_its_kind_and_the_line_of_the_log() -> None:
    async with an_api(engine=FakeEngine()) as api:
        key = await api.box.run(await submit(api))
        said = "RuntimeError: CUDA out of memory. Tried 20 GiB\n"
        api.box.engine.found[key] = Evidence(log_tail=said)
        api.box.engine.finish(key, 1)
        job = (await api.get(f"/api/v1/jobs/{key.job_id}/wait")).json()
        assert (job["state"], job["failure"]) == ("failed", "cuda_out_of_memory")
        assert "Tried 20 GiB" in job["cause"]


async def test_a_receipt_tells_what_a_job_used(api: Api) -> None:
    key = await api.box.run(await submit(api, gpu_count=2, name="train", user="ada"))
    await api.box.tick(1_800_000)
    api.box.engine.finish(key, 3)
    await api.get(f"/api/v1/jobs/{key.job_id}/wait")
    found = (await api.get(f"/api/v1/jobs/{key.job_id}/receipt")).json()
    assert (found["name"], found["user"], found["state"]) == ("train", "ada", "failed")
    assert (found["failure"], found["cause"], found["complete"]) == (
        "user_error",
        "exit code 3",
        True,
    )
    (attempt,) = found["attempts"]
    assert (attempt["attempt"], attempt["gpus"]) == (1, [0, 1])
    assert (attempt["run_seconds"], found["run_seconds"]) == (1800, 1800)
    assert (attempt["gpu_hours"], found["gpu_hours"]) == (1, 1)
    assert (found["cost"], found["peak_gpu_memory_mb"]) == (None, None)


async def test_a_receipt_has_its_cost_where_there_is_a_price() -> None:
    async with an_api(cost_per_gpu_hour=2.5) as api:
        key = await api.box.run(await submit(api))
        await api.box.tick(3_600_000)
        found = (await api.get(f"/api/v1/jobs/{key.job_id}/receipt")).json()
        assert (found["gpu_hours"], found["cost"]) == (1, 2.5)


async def test_there_is_no_receipt_of_no_job(api: Api) -> None:
    error_of(await api.get("/api/v1/jobs/nobody/receipt"), 404, "JOB_NOT_FOUND")
