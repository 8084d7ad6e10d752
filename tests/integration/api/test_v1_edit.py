"""PATCH /api/v1/jobs/{job}: everything that decides when a waiting job starts."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.api.http import Api, an_api, error_of
from tests.unit.service.world import DEFAULT
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant

JOBS = "/api/v1/jobs"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(tenants=(DEFAULT, Tenant(TenantId("small"), max_gpu_millis=2000))) as made:
        yield made


async def submit(api: Api, **fields: Any) -> str:
    answer = await api.post(JOBS, json={"command": ["true"], **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


async def job(api: Api, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(f"{JOBS}/{job_id}")).json()
    return found


async def test_a_waiting_job_is_edited_and_says_what_changed(api: Api) -> None:
    job_id = await submit(api, gpu_count=2, gpu_memory_mb=20_000, max_runtime=60)
    change = {"gpu_count": 4, "gpu_type": "A100", "max_runtime_minutes": 120, "name": "second"}
    answer = await api.patch(f"{JOBS}/{job_id}", json=change)
    assert answer.status_code == 200, answer.text
    message = answer.json()["message"]
    assert "gpu_count 2 → 4" in message
    assert "max_runtime 60 → 7200" in message
    found = await job(api, job_id)
    assert (found["gpu_count"], found["gpu_type"], found["name"]) == (4, "A100", "second")
    assert found["max_runtime_minutes"] == 120
    assert found["gpu_memory_mb"] == 40_000  # each GPU keeps what it had
    events = (await api.get(f"{JOBS}/{job_id}/events")).json()["events"]
    assert [event["kind"] for event in events] == ["job_submitted", "job_changed"]
    assert events[1]["data"]["changes"]["name"] == ["nothing", "second"]


async def test_null_and_an_empty_list_take_away(api: Api) -> None:
    first = await submit(api)
    job_id = await submit(api, after=[{"job_id": first}], max_runtime=60, gpu_type="A100")
    change: dict[str, Any] = {"after": [], "max_runtime": None, "gpu_type": None}
    assert (await api.patch(f"{JOBS}/{job_id}", json=change)).status_code == 200
    found = await job(api, job_id)
    assert (found["after"], found["max_runtime_minutes"], found["gpu_type"]) == ([], None, None)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, "give a field to change"),
        ({"gpu_count": 99}, "gpu_count"),
        ({"gpu_count": 0}, "gpu_count"),
        ({"gpu_type": "V100"}, "there is no such GPU here"),
        ({"queue": "nowhere"}, "no such queue"),
        ({"deadline": "1969-01-01T00:00:00Z"}, "is in the past"),
        ({"command": ["rm"]}, "command"),
        ({"tenant_id": "small"}, "tenant_id"),
        ({"after": [{"job_id": "404"}]}, "there is no such job"),
        ({"reservation": "none"}, "no such reservation"),
        ({"labels": {"a b": "c"}}, "a label is letters"),
    ],
)
async def test_it_is_checked_as_a_submission_is(
    api: Api, change: dict[str, Any], sentence: str
) -> None:
    job_id = await submit(api)
    before = await job(api, job_id)
    answer = await api.patch(f"{JOBS}/{job_id}", json=change)
    assert sentence in error_of(answer, 422, "VALIDATION_ERROR")["message"]
    assert await job(api, job_id) == before


async def test_more_than_the_quota_is_refused(api: Api) -> None:
    job_id = await submit(api, tenant_id="small")
    answer = await api.patch(f"{JOBS}/{job_id}", json={"gpu_count": 3})
    assert "quota" in error_of(answer, 422, "QUOTA_EXCEEDED")["message"]


async def test_what_waits_of_an_array_is_edited_by_its_id(api: Api) -> None:
    array = await submit(api, gpu_count=3, array={"indexes": "1-3"})
    await api.box.tick()
    answer = (await api.patch(f"{JOBS}/{array}", json={"gpu_count": 1})).json()
    assert answer["message"].startswith(
        "2 of 3 jobs changed: gpu_count 3 → 1; not changed, as no longer waiting: 1"
    )
    rows = await api.box.service.store.journal(0, 100)
    assert [row.kind for row in rows].count("job_changed") == 2


async def test_one_that_runs_is_a_conflict(api: Api) -> None:
    job_id = await submit(api)
    await api.box.run(job_id)
    answer = await api.patch(f"{JOBS}/{job_id}", json={"gpu_count": 2})
    assert "is running: only a waiting job" in error_of(answer, 409, "CONFLICT")["message"]
