"""When jobs start, over REST: beside the job, before it is submitted, and how often it was true."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.api.http import Api, an_api, error_of
from tests.unit.service.world import DEFAULT
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant

JOBS = "/api/v1/jobs"
ASK = "/api/v1/jobs/estimate"
ACCURACY = "/api/v1/scheduler/accuracy"
HOUR = 3_600_000


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    tenants = (DEFAULT, Tenant(TenantId("small"), max_gpu_millis=1000))
    async with an_api(leases=True, gpus="sim:2xA100,1xH100", tenants=tenants) as made:
        yield made


async def submit(api: Api, job_id: str, **fields: Any) -> None:
    body = {"job_id": job_id, "gpu_type": "A100", "gpu_count": 2, "max_runtime": 3600, **fields}
    answer = await api.post(JOBS, json=body)
    assert answer.status_code == 201, answer.text


async def get(api: Api, path: str, **params: Any) -> dict[str, Any]:
    answer = await api.get(path, params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def asked(api: Api, **fields: Any) -> dict[str, Any]:
    answer = await api.post(ASK, json={"gpu_type": "A100", "gpu_count": 2, **fields})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_waiting_job_shows_when_it_starts(api: Api) -> None:
    await submit(api, "a")
    await submit(api, "b")
    await api.box.tick(0)
    told = {
        "p50": "1970-01-01T01:00:00.000Z",
        "p90": "1970-01-01T03:01:00.000Z",
        "as_of": "1970-01-01T00:00:00.000Z",
        "basis": "simulated",
        "level": "limit",
        "samples": 0,
        "latest": None,
    }
    assert (await get(api, f"{JOBS}/b"))["estimate"] == told
    assert (await get(api, f"{JOBS}/b/why"))["estimate"] == told
    listed = (await get(api, JOBS))["jobs"]
    assert {job["job_id"]: job["estimate"] for job in listed} == {"a": None, "b": told}


async def test_accuracy_is_told_by_tenant_and_queue(api: Api) -> None:
    await submit(api, "a")
    await submit(api, "b")
    await submit(api, "c", tenant_id="small", gpu_count=1)
    await api.box.tick(0)
    await get(api, JOBS)
    await api.box.tick(2 * HOUR)
    await api.box.tick(3 * HOUR)
    found = await get(api, ACCURACY, days=7)
    assert found["total"]["jobs"] == 2
    assert found["total"]["before_p90"] == 1.0
    assert [one["tenant_id"] for one in found["queues"]] == ["default", "small"]
    assert (found["queues"][0]["before_p50"], found["queues"][0]["queue"]) == (0.0, "default")
    assert found["queues"][0]["median_error_seconds"] == 3600
    assert (await get(api, ACCURACY, tenant_id="small"))["total"]["jobs"] == 1


async def test_accuracy_without_any_job_is_empty(api: Api) -> None:
    found = await get(api, ACCURACY)
    assert (found["total"]["jobs"], found["total"]["before_p90"], found["queues"]) == (0, None, [])


async def test_what_would_start_at_once_is_said_so(api: Api) -> None:
    found = await asked(api)
    assert (found["starts_now"], found["sooner"], found["jobs"]) == (True, [], 1)


async def test_what_would_wait_is_told_until_when_and_what_would_start_it_sooner(api: Api) -> None:
    await submit(api, "a")
    await api.box.tick(0)
    found = await asked(api, gpu_count=1)
    assert found["starts_now"] is False
    assert found["estimate"]["p50"] == "1970-01-01T01:00:00.000Z"
    (first, *_) = found["sooner"]
    assert first["sentence"] == "on H100 it would start now"
    assert first["fields"] == {"gpu_type": "H100", "gpu_types": []}
    assert first["starts_now"] is True


async def test_a_change_that_only_helps_a_little_says_when(api: Api) -> None:
    await submit(api, "a", gpu_count=1)
    await submit(api, "b", gpu_count=1, max_runtime=7200)
    await api.box.tick(0)
    found = await asked(api)
    assert [one["sentence"] for one in found["sooner"]] == ["with 1 GPU it would start in about 1h"]
    assert found["sooner"][0]["fields"] == {"gpu_count": 1.0}


async def test_nothing_is_stored_by_the_question(api: Api) -> None:
    await asked(api, job_id="mine", array={"indexes": "1-3"})
    assert (await get(api, JOBS))["jobs"] == []
    assert (await api.get(f"{JOBS}/mine.1")).status_code == 404


async def test_of_an_array_the_first_and_the_last_are_told(api: Api) -> None:
    found = await asked(api, array={"indexes": "1-3"}, max_runtime=3600)
    assert (found["jobs"], found["starts_now"]) == (3, True)
    assert found["last"]["p50"] == "1970-01-01T02:00:00.000Z"


async def test_what_would_be_on_hold_has_no_estimate(api: Api) -> None:
    found = await asked(api, hold=True)
    assert (found["held"], found["estimate"], found["starts_now"]) == (True, None, False)


@pytest.mark.parametrize(
    "fields",
    [{"gpu_count": 0}, {"gpu_count": 9}, {"tenant_id": "nobody"}, {"after": [{"job_id": "x"}]}],
    ids=["no GPUs", "too many", "unknown tenant", "unknown job"],
)
async def test_what_submit_refuses_is_refused_in_the_same_words(
    api: Api, fields: dict[str, Any]
) -> None:
    answers = [await api.post(path, json=fields) for path in (JOBS, ASK)]
    code = answers[0].json()["error"]["code"]
    errors = [error_of(answer, answers[0].status_code, code) for answer in answers]
    assert errors[0] == errors[1]


async def test_the_receipt_holds_the_wait_against_what_was_told(api: Api) -> None:
    await submit(api, "a")
    await submit(api, "b")
    await api.box.tick(0)
    await get(api, JOBS)
    waiting = (await get(api, f"{JOBS}/b/receipt"))["announced"]
    assert (waiting["p50"], waiting["started_at"]) == ("1970-01-01T01:00:00.000Z", None)
    await api.box.tick(2 * HOUR)
    started = (await get(api, f"{JOBS}/b/receipt"))["announced"]
    assert (started["error_seconds"], started["before_p90"]) == (3600, True)
    assert (await get(api, f"{JOBS}/a/receipt"))["announced"] is None
