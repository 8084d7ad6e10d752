"""/api/v1/reservations: made, listed, refused, given back; on the record; seen on the GPUs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.api.http import Api, an_api, error_of

HOUR = 3_600_000
AT_ONE = "1970-01-01T01:00:00Z"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(gpus="sim:4xA100", leases=True) as made:
        yield made


async def reserve(api: Api, **fields: Any) -> dict[str, Any]:
    body = {"gpus": 2, "minutes": 60, "starts_at": AT_ONE} | fields
    answer = await api.post("/api/v1/reservations", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_a_reservation_is_answered_with_all_there_is_to_know(api: Api) -> None:
    assert await reserve(api, user="ann") == {
        "id": "r-1",
        "tenant_id": "default",
        "user": "ann",
        "node": "local",
        "gpus": [0, 1],
        "gpu_type": "A100",
        "starts_at": "1970-01-01T01:00:00.000Z",
        "ends_at": "1970-01-01T02:00:00.000Z",
        "state": "waiting",
        "used": False,
        "unused_minutes": 15.0,
        "jobs": [],
        "problem": None,
    }


async def test_reservations_are_listed_by_start(api: Api) -> None:
    await reserve(api, starts_at="1970-01-01T03:00:00+01:00", id="later")
    await reserve(api, id="sooner")
    found = (await api.get("/api/v1/reservations")).json()["reservations"]
    assert [each["id"] for each in found] == ["sooner", "later"]
    one = (await api.get("/api/v1/reservations/later")).json()
    assert one == found[1]
    nobody = await api.get("/api/v1/reservations", params={"tenant_id": "nobody"})
    assert nobody.json() == {"reservations": []}


async def test_a_reservation_is_open_from_its_start_and_names_its_jobs(api: Api) -> None:
    await reserve(api)
    job = (await api.post("/api/v1/jobs", json={"reservation": "r-1", "gpu_count": 1})).json()
    assert await api.box.tick(0) == []
    assert await api.box.tick(HOUR) == [job["job_id"]]
    found = (await api.get("/api/v1/reservations/r-1")).json()
    assert (found["state"], found["used"], found["jobs"]) == ("open", True, [job["job_id"]])


async def test_what_is_given_back_is_gone(api: Api) -> None:
    await reserve(api)
    answer = await api.delete("/api/v1/reservations/r-1")
    assert (answer.status_code, answer.json()["id"]) == (200, "r-1")
    for gone in (
        await api.get("/api/v1/reservations/r-1"),
        await api.delete("/api/v1/reservations/r-1"),
    ):
        assert "no reservation named 'r-1'" in error_of(gone, 404, "NOT_FOUND")["message"]


async def test_what_is_taken_is_a_conflict_with_the_time_when_it_is_free(api: Api) -> None:
    await reserve(api, gpus=3)
    body = {"gpus": 2, "minutes": 30, "starts_at": AT_ONE}
    refused = error_of(await api.post("/api/v1/reservations", json=body), 409, "CONFLICT")
    assert refused["details"] == [{"requested": 2, "free": 1, "free_at": "1970-01-01T02:00:00Z"}]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"minutes": 5}, "gpus: is required"),
        ({"gpus": 0, "minutes": 5}, "gpus: must be at least 1"),
        ({"gpus": 0.5, "minutes": 5}, "gpus: must be a whole number"),
        ({"gpus": 1, "minutes": -5}, "minutes: must be at least 0"),
        ({"gpus": 1, "minutes": 0}, "minutes: at least a second"),
        ({"gpus": 1, "minutes": 5, "starts_at": "14:00"}, "starts_at: must be ISO 8601"),
        ({"gpus": 1, "minutes": 5, "starts_at": "2030-01-01T10:00:00"}, "with its zone"),
        ({"gpus": 1, "minutes": 5, "starts_at": "2030-01-01T10:00:00Z"}, "days ahead"),
        ({"gpus": 9, "minutes": 5}, "no machine has more than 4"),
        ({"gpus": 1, "minutes": 5, "tenant_id": "nobody"}, "no such tenant"),
    ],
)
async def test_a_wrong_field_is_named(api: Api, body: dict[str, Any], complaint: str) -> None:
    refused = error_of(await api.post("/api/v1/reservations", json=body), 422, "VALIDATION_ERROR")
    assert complaint in refused["message"]


async def test_zero_unused_minutes_keep_it(api: Api) -> None:
    assert (await reserve(api, unused_minutes=0))["unused_minutes"] is None
    assert (await reserve(api, unused_minutes=2.5))["unused_minutes"] == 2.5


async def test_gpus_show_when_they_are_reserved(api: Api) -> None:
    await reserve(api, gpus=1)
    found = (await api.get("/api/v1/gpus")).json()["gpus"]
    assert [gpu["reservations"] for gpu in found[1:]] == [[], [], []]
    assert found[0]["reservations"] == [
        {
            "id": "r-1",
            "tenant_id": "default",
            "starts_at": "1970-01-01T01:00:00.000Z",
            "ends_at": "1970-01-01T02:00:00.000Z",
        }
    ]
