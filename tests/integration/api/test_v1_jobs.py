"""/api/v1/jobs: submit, list, look, change, wait, why."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.api.http import Api, an_api, error_of
from tests.unit.service.world import DEFAULT, FailingStore
from tgpu.core.model.ids import TenantId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.tenant import Tenant
from tgpu.service.recording.clock import ManualClock

JOBS = "/api/v1/jobs"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(tenants=(DEFAULT, Tenant(TenantId("small"), max_gpu_millis=2000))) as made:
        yield made


async def submit(api: Api, **fields: Any) -> str:
    answer = await api.post(JOBS, json={"command": ["true"], **fields})
    assert answer.status_code == 201, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


async def job(api: Api, job_id: str) -> dict[str, Any]:
    answer = await api.get(f"{JOBS}/{job_id}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def why(api: Api, job_id: str) -> dict[str, Any]:
    answer = await api.get(f"{JOBS}/{job_id}/why")
    assert answer.status_code == 200, answer.text
    reason: dict[str, Any] = answer.json()["reason"]
    return reason


# -- submit ----------------------------------------------------------------------------------


async def test_a_job_is_submitted(api: Api) -> None:
    answer = await api.post(JOBS, json={"command": ["python", "train.py"]})
    assert answer.status_code == 201
    body = answer.json()
    assert (body["job_id"], body["status"]) == ("1", "submitted")
    assert body["message"] == "Job submitted successfully"
    assert body["job_ids"] == []


async def test_every_field_of_the_documented_job_object_is_taken() -> None:
    tenant = Tenant(TenantId("tenant-1234567890"))
    async with an_api(tenants=(tenant,)) as api:
        answer = await api.post(
            JOBS,
            json={
                "tenant_id": "tenant-1234567890",
                "name": "Training Job",
                "priority": 1000,
                "gpu_count": 4,
                "gpu_memory_mb": 40000,
                "cpu_cores": 16,
                "memory_mb": 64000,
                "command": ["python", "train.py"],
                "args": ["--epochs", "100"],
                "environment": {"CUDA_VISIBLE_DEVICES": "0,1,2,3"},
                "gang_scheduling": True,
                "max_runtime_minutes": 1440,
            },
        )
        assert answer.status_code == 201, answer.text
        found = await job(api, answer.json()["job_id"])
        assert found["command"] == ["python", "train.py", "--epochs", "100"]
        assert (found["name"], found["priority"], found["gpu_count"]) == ("Training Job", 1000, 4)
        assert (found["gpu_memory_mb"], found["cpu_cores"], found["memory_mb"]) == (
            40000,
            16,
            64000,
        )
        assert found["max_runtime_minutes"] == 1440
        assert found["state"] == "pending"


@pytest.mark.parametrize("path", [JOBS, "/api/v1/jobs/estimate"])
async def test_an_image_is_refused_where_the_engine_runs_none(api: Api, path: str) -> None:
    answer = await api.post(path, json={"command": ["true"], "image": "pytorch:2.0"})
    error = error_of(answer, 422, "VALIDATION_ERROR")
    assert error["message"] == (
        "image: the fake engine runs commands on the machine itself and not in container images; "
        "leave it out (got 'pytorch:2.0')"
    )


async def test_a_command_as_one_text_is_refused_with_what_would_be_right(api: Api) -> None:
    answer = await api.post(JOBS, json={"command": "python train.py"})
    error = error_of(answer, 422, "VALIDATION_ERROR")
    assert error["message"] == (
        """command: must be a list, like ["python", "train.py"] (got 'python train.py')"""
    )
    assert error["details"] == [
        {
            "field": "command",
            "value": "'python train.py'",
            "remedy": 'must be a list, like ["python", "train.py"]',
        }
    ]


@pytest.mark.parametrize("name", ["gpu_count", "gpus", "num_gpus"])
async def test_gpus_go_by_several_names(api: Api, name: str) -> None:
    assert (await job(api, await submit(api, **{name: 2})))["gpu_count"] == 2


async def test_a_tenant_goes_by_project_too(api: Api) -> None:
    assert (await job(api, await submit(api, project_id="small")))["tenant_id"] == "small"


async def test_a_share_of_a_gpu(api: Api) -> None:
    assert (await job(api, await submit(api, gpu_count=0.25)))["gpu_count"] == 0.25


async def test_the_same_request_again_is_answered_with_the_same_job(api: Api) -> None:
    body = {"job_id": "mine", "command": ["true"], "name": "n"}
    first, again = await api.post(JOBS, json=body), await api.post(JOBS, json=body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["job_id"] == again.json()["job_id"] == "mine"
    other = await api.post(JOBS, json={**body, "name": "another"})
    error_of(other, 409, "DUPLICATE_JOB")


async def test_an_array_and_a_sweep_name_all_their_jobs(api: Api) -> None:
    answer = await api.post(JOBS, json={"command": ["t"], "array": {"indexes": "1-3"}})
    assert answer.json()["job_ids"] == ["1.1", "1.2", "1.3"]
    sweep = {"command": ["t", "--lr", "{lr}"], "params": {"lr": ["0.1", "0.01"]}}
    answer = await api.post(JOBS, json=sweep)
    assert answer.json()["job_ids"] == ["2.1", "2.2"]
    last = answer.json()["job_ids"][-1]
    assert (await job(api, last))["command"] == ["t", "--lr", "0.01"]


async def test_over_quota_is_refused_where_it_can_never_fit(api: Api) -> None:
    answer = await api.post(JOBS, json={"tenant_id": "small", "gpu_count": 3})
    error = error_of(answer, 422, "QUOTA_EXCEEDED")
    assert error["message"] == (
        "quota exceeded for tenant small: GPUs requested=3, quota=2, current=0"
    )


async def test_a_job_shows_what_it_asks_of_its_place(api: Api) -> None:
    asked = {
        "gpu_types": ["H100", "A100"],
        "gpu_memory_each_mb": 1024,
        "excluded_gpus": [3],
        "excluded_nodes": ["elsewhere"],
        "spread": True,
    }
    options = {
        "deadline": "2100-01-31T10:00:00+01:00",
        "preemptible": False,
        "checkpoint_signal": 10,
    }
    shown = await job(api, await submit(api, **asked, **options))
    nothing: dict[str, Any] = {"allowed_gpus": [], "nodes": [], "labels": {}}
    assert shown["constraints"] == {**nothing, "exclusive": False, "same_island": False, **asked}
    assert shown["deadline"] == "2100-01-31T09:00:00.000Z"
    assert (shown["preemptible"], shown["checkpoint_signal"]) == (False, "USR1")
    assert (await job(api, await submit(api)))["constraints"] is None


async def test_a_gang_shows_its_workers_and_where_each_is(api: Api) -> None:
    job_id = await submit(api, workers=2, gpu_count=1, cpu_cores=1.5, gpu_type="A100")
    waiting = await job(api, job_id)
    assert (waiting["gpu_count"], waiting["workers"], waiting["gpus_per_worker"]) == (2, 2, 1)
    assert (waiting["cpu_cores"], waiting["placements"]) == (3, [])
    await api.box.tick(1)
    placements = (await job(api, job_id))["placements"]
    assert [part["node"] for part in placements] == ["local", "local"]
    assert len({index for part in placements for index in part["gpus"]}) == 2


async def test_secrets_are_masked_when_shown_and_whole_when_run(api: Api) -> None:
    names = ("API_KEY", "HF_TOKEN", "DB_PASSWORD", "my_secret", "AWS_CREDENTIALS", "PLAIN")
    variables = dict.fromkeys(names, "s3cr3t") | {"SEED": "7"}
    job_id = await submit(api, environment=variables)
    shown = (await job(api, job_id))["environment"]
    assert shown.pop("SEED") == "7"
    assert set(shown.values()) == {"******"}  # PLAIN too: it has the same value
    for answer in (await api.get(f"{JOBS}/{job_id}"), await api.get(JOBS)):
        assert "s3cr3t" not in answer.text
    await api.box.run(job_id)
    assert api.box.engine.launched[0].env["HF_TOKEN"] == "s3cr3t"


async def test_the_submitter_s_whole_environment_is_never_shown(api: Api) -> None:
    job_id = await submit(api, base_environment={"SHELL_SECRET": "s3cr3t", "HOME": "/home/me"})
    assert "s3cr3t" not in (await api.get(f"{JOBS}/{job_id}")).text
    assert "/home/me" not in (await api.get(JOBS)).text


# -- list ------------------------------------------------------------------------------------


async def pages(api: Api, **params: Any) -> list[str]:
    found: list[str] = []
    while True:
        body = (await api.get(JOBS, params=params)).json()
        found += [each["job_id"] for each in body["jobs"]]
        if body["next_cursor"] is None:
            return found
        params["cursor"] = body["next_cursor"]


async def test_jobs_are_listed_newest_first(api: Api) -> None:
    ids = [await submit(api) for _ in range(3)]
    assert await pages(api) == ids[::-1]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_pages_together_are_everything_once(api: Api, limit: int) -> None:
    await submit(api, array={"indexes": "1-7"})
    found = await pages(api, limit=limit)
    assert len(found) == len(set(found)) == 7


async def test_pages_repeat_and_lose_nothing_while_jobs_arrive(api: Api) -> None:
    before = [await submit(api) for _ in range(10)]
    found: list[str] = []
    params: dict[str, Any] = {"limit": 3}
    while True:
        body = (await api.get(JOBS, params=params)).json()
        found += [each["job_id"] for each in body["jobs"]]
        await submit(api)
        await submit(api)
        if body["next_cursor"] is None:
            break
        params["cursor"] = body["next_cursor"]
    assert found == before[::-1]


async def test_filters_narrow_the_list(api: Api) -> None:
    await submit(api, job_id="a", name="train-1", user="ada", tenant_id="small")
    await submit(api, job_id="b", name="train-2", user="bob", hold=True)
    await submit(api, job_id="c", name="100%", user="ada", array={"indexes": "1-2"})
    await api.delete(f"{JOBS}/b")
    assert await pages(api, tenant_id="small") == ["a"]
    assert await pages(api, name="train") == ["b", "a"]
    assert await pages(api, name="%") == ["c.2", "c.1"]
    assert await pages(api, user="ada") == ["c.2", "c.1", "a"]
    assert await pages(api, state="cancelled") == ["b"]
    assert await pages(api, state="pending, cancelled") == ["c.2", "c.1", "b", "a"]
    assert await pages(api, array_id="c") == ["c.2", "c.1"]
    assert await pages(api, tenant_id="nobody") == []
    assert await pages(api, user="ada", state="pending", name="train") == ["a"]


async def test_a_list_says_why_each_waiting_job_waits(api: Api) -> None:
    await submit(api, hold=True)
    (found,) = (await api.get(JOBS)).json()["jobs"]
    assert found["reason"]["code"] == "held"


# -- look ------------------------------------------------------------------------------------


async def test_a_running_job_shows_where_and_since_when(api: Api) -> None:
    job_id = await submit(api, gpu_count=2, gpu_type="H100")
    await api.box.run(job_id, 1_700_000_000_000)
    found = await job(api, "last")
    assert (found["job_id"], found["state"]) == (job_id, "running")
    assert found["gpus"] == [4, 5]
    assert found["started_at"] == "2023-11-14T22:13:20.000Z"
    assert found["pid"] is not None
    assert (found["attempt"], found["reason"]) == (1, None)


async def test_a_finished_job_shows_how_it_ended(api: Api) -> None:
    job_id = await submit(api)
    api.box.engine.finish(await api.box.run(job_id), 137)
    await api.box.until(job_id, JobState.FAILED)
    found = await job(api, job_id)
    assert (found["exit_code"], found["signal"], found["cause"]) == (137, 9, "signal 9 (KILL)")
    assert found["ended_at"] is not None


async def test_last_without_any_job_is_not_found(api: Api) -> None:
    error_of(await api.get(f"{JOBS}/last"), 404, "JOB_NOT_FOUND")


# -- change ----------------------------------------------------------------------------------


async def test_a_waiting_job_is_cancelled_at_once_and_only_once(api: Api) -> None:
    job_id = await submit(api)
    answer = await api.delete(f"{JOBS}/{job_id}")
    assert answer.status_code == 200
    assert answer.json() == {
        "job_id": job_id,
        "status": "cancelled",
        "message": "Job cancelled",
        "recorded": True,
    }
    error_of(await api.delete(f"{JOBS}/{job_id}"), 409, "CONFLICT")


async def test_a_running_job_is_being_ended(api: Api) -> None:
    job_id = await submit(api)
    await api.box.run(job_id)
    api.box.engine.stops = False
    answer = await api.delete(f"{JOBS}/{job_id}")
    assert answer.json()["status"] == "running"
    assert answer.json()["message"] == "Job is being stopped"
    assert (await why(api, job_id))["message"] == "is being stopped: cancelled by its owner"


async def test_hold_and_release(api: Api) -> None:
    job_id = await submit(api)
    assert (await api.post(f"{JOBS}/{job_id}/hold")).json()["status"] == "pending"
    assert (await job(api, job_id))["held"]
    assert await api.box.tick() == []
    assert (await api.post(f"{JOBS}/last/release")).json()["job_id"] == job_id
    await api.box.run(job_id)
    for action in ("hold", "release"):
        answer = await api.post(f"{JOBS}/{job_id}/{action}")
        error_of(answer, 409, "INVALID_STATE")


async def test_a_waiting_job_gets_another_priority(api: Api) -> None:
    job_id = await submit(api)
    answer = await api.patch(f"{JOBS}/last", json={"priority": 900})
    assert answer.json() == {
        "job_id": job_id,
        "status": "pending",
        "message": "Job has priority 900",
        "recorded": True,
    }
    assert (await job(api, job_id))["priority"] == 900
    events = (await api.get(f"{JOBS}/{job_id}/events")).json()["events"]
    told = {"priority": 900, "changes": {"priority": ["500", "900"]}}
    assert [(e["kind"], e["data"]) for e in events][1:] == [("job_changed", told)]
    error_of(await api.patch(f"{JOBS}/nobody", json={"priority": 1}), 404, "JOB_NOT_FOUND")
    error_of(await api.patch(f"{JOBS}/{job_id}", json={}), 422, "VALIDATION_ERROR")
    await api.box.run(job_id)
    error_of(await api.patch(f"{JOBS}/{job_id}", json={"priority": 1}), 409, "CONFLICT")


async def test_a_lease_is_completed_and_a_command_is_not(api: Api) -> None:
    lease = await submit(api, command=[])
    runs = await submit(api)
    error_of(await api.post(f"{JOBS}/{lease}/complete"), 409, "INVALID_STATE")
    await api.box.run(runs)
    answer = await api.post(f"{JOBS}/{lease}/complete")
    assert answer.json()["status"] == "completed"
    error_of(await api.post(f"{JOBS}/{runs}/complete"), 409, "CONFLICT")


async def test_a_job_is_run_again(api: Api) -> None:
    job_id = await submit(api, name="n", params={"lr": ["1"]}, command=["t", "{lr}"])
    answer = await api.post(f"{JOBS}/{job_id}.1/rerun")
    assert answer.status_code == 201
    found = await job(api, answer.json()["job_id"])
    assert (found["name"], found["command"], found["params"]) == ("n", ["t", "1"], {"lr": "1"})


# -- wait ------------------------------------------------------------------------------------


async def test_waiting_for_a_job_that_is_over_returns_at_once(api: Api) -> None:
    job_id = await submit(api)
    await api.delete(f"{JOBS}/{job_id}")
    began = time.monotonic()
    answer = await api.get(f"{JOBS}/{job_id}/wait", params={"timeout": 20})
    assert answer.json()["state"] == "cancelled"
    assert time.monotonic() - began < 2


async def test_waiting_ends_with_the_job(api: Api) -> None:
    job_id = await submit(api)
    key = await api.box.run(job_id)
    waiting = asyncio.create_task(api.get(f"{JOBS}/last/wait", params={"timeout": 20}))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    api.box.engine.finish(key, 4)
    body = (await asyncio.wait_for(waiting, 5)).json()
    assert (body["state"], body["exit_code"]) == ("failed", 4)


async def test_waiting_ends_with_its_time(api: Api) -> None:
    job_id = await submit(api)
    answer = await api.get(f"{JOBS}/{job_id}/wait", params={"timeout": 0.05})
    assert answer.json()["state"] == "pending"
    error_of(await api.get(f"{JOBS}/{job_id}/wait?timeout=61"), 422, "VALIDATION_ERROR")
    error_of(await api.get(f"{JOBS}/nobody/wait"), 404, "JOB_NOT_FOUND")


# -- why -------------------------------------------------------------------------------------


async def test_why_has_a_sentence_for_every_kind_of_waiting(api: Api) -> None:
    held = await submit(api, hold=True)
    fits = await submit(api)
    assert (await why(api, held))["code"] == "held"
    assert (await why(api, held))["remedy"] == f"tgpu release {held}"
    assert (await why(api, fits))["code"] == "next_cycle"
    full = await submit(api, gpu_count=4, gpu_type="A100", priority=9000)
    await api.box.tick()
    busy = await submit(api, gpu_count=4, gpu_type="A100")
    found = await why(api, busy)
    assert found["code"] == "gpus_busy"
    assert "needs 4 A100; 0 " in found["message"]
    after = await submit(api, after=[{"job_id": full}])
    assert (await why(api, after))["message"] == f"waits for job {full} to end"
    array = (
        await api.post(
            JOBS,
            json={
                "command": ["t"],
                "gpu_type": "H100",
                "array": {"indexes": "1-2", "max_running": 1},
            },
        )
    ).json()["job_ids"]
    await api.box.tick()
    assert (await why(api, array[1]))["code"] == "array_cap"


async def test_why_names_the_quota_with_its_numbers(api: Api) -> None:
    first = await submit(api, tenant_id="small", gpu_count=2)
    await api.box.run(first)
    second = await submit(api, tenant_id="small")
    found = await why(api, second)
    assert found["code"] == "tenant_quota"
    assert found["message"] == ("tenant small has 2 of its 2 GPUs in use, and this job needs 1")


async def test_why_for_a_job_that_backs_off_whatever_the_clock_says() -> None:
    async with an_api(clock=ManualClock()) as api:
        job_id = await submit(api, max_retries=1)
        far = 9_000_000_000_000_000  # milliseconds: a year that no calendar has
        api.box.engine.finish(await api.box.run(job_id, far), 1)
        await api.box.until(job_id, JobState.PENDING)
        found = await why(api, job_id)
        assert found["code"] == "backing_off"
        assert "after exit code 1" in found["message"]
        assert (await api.get(JOBS)).status_code == 200


async def test_why_tells_what_became_of_jobs_that_do_not_wait(api: Api) -> None:
    ids = {name: await submit(api) for name in ("completed", "failed", "running")}
    for job_id in ids.values():
        await api.box.run(job_id)
    api.box.engine.finish(await api.box.key(ids["completed"]), 0)
    api.box.engine.finish(await api.box.key(ids["failed"]), 2)
    await api.box.until(ids["completed"], JobState.COMPLETED)
    await api.box.until(ids["failed"], JobState.FAILED)
    ids["cancelled"] = await submit(api)
    await api.delete(f"{JOBS}/{ids['cancelled']}")
    api.box.engine.starts = False
    ids["scheduled"] = await submit(api)
    await api.box.tick()
    told = {name: await why(api, job_id) for name, job_id in ids.items()}
    assert {name: reason["code"] for name, reason in told.items()} == {name: name for name in ids}
    assert told["completed"]["message"] == "has completed"
    assert told["failed"]["message"] == "has failed: exit code 2"
    assert told["running"]["message"].startswith("runs on GPU ")
    assert told["cancelled"]["message"] == "was cancelled by its owner"
    assert told["scheduled"]["message"].startswith("is being started on GPU ")
    assert all(reason["remedy"] for reason in told.values())


@pytest.mark.parametrize("path", ["", "/why", "/wait", "/logs"])
async def test_unknown_jobs_are_not_found_anywhere(api: Api, path: str) -> None:
    error_of(await api.get(f"{JOBS}/nobody{path}"), 404, "JOB_NOT_FOUND")


@pytest.mark.parametrize("action", ["hold", "release", "complete", "rerun"])
async def test_unknown_jobs_cannot_be_changed(api: Api, action: str) -> None:
    error_of(await api.post(f"{JOBS}/nobody/{action}"), 404, "JOB_NOT_FOUND")


# -- the store -------------------------------------------------------------------------------


async def test_a_store_that_cannot_write_is_unavailable_and_reading_goes_on() -> None:
    store = FailingStore()
    async with an_api(store=store) as api:
        job_id = await submit(api)
        store.broken = "no space left on the device; free some and try again"
        error = error_of(await api.post(JOBS, json={"command": ["true"]}), 503, "UNAVAILABLE")
        assert "no space left" in error["message"]
        assert (await job(api, job_id))["state"] == "pending"
        health = (await api.get("/api/v1/health")).json()
        assert health["status"] == "degraded"
        assert health["problems"] == ["store: no space left on the device; free some and try again"]


async def test_a_full_queue_is_unavailable() -> None:
    async with an_api(max_queue_size=1) as api:
        await submit(api)
        error_of(await api.post(JOBS, json={"command": ["true"]}), 503, "UNAVAILABLE")
