"""Queries over HTTP: what is not there is refused, and what is there is honoured."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from tests.integration.api.http import Api, an_api, error_of
from tests.unit.service.world import DEFAULT
from tgpu.api.rest.parameters import parameters_of
from tgpu.api.rest.routes.events import router
from tgpu.api.rest.rules import RULES
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant
from tgpu.store.sqlite import SqliteStore

JOBS, QUEUES = "/api/v1/jobs", "/api/v1/queues"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    store = SqliteStore(tmp_path / "tgpu.db")
    tenants = (DEFAULT, Tenant(TenantId("blue")))
    async with an_api(store=store, leases=True, tenants=tenants) as made:
        yield made


async def submitted(api: Api, count: int, **fields: Any) -> None:
    for _ in range(count):
        answer = await api.post(JOBS, json={"gpu_count": 1, **fields})
        assert answer.status_code == 201, answer.text


# -- what nobody reads ---------------------------------------------------------------------------


def paths_without_parameters() -> list[str]:
    """Every path that can be read and has no name of anything in it."""
    found = {path for kind, path in RULES if kind == "GET" and "{" not in path}
    return sorted(path for path in found if path.startswith("/api/v1/"))


READ = [path for path in paths_without_parameters() if path != "/api/v1/health"]


@pytest.mark.parametrize("path", READ)
async def test_a_parameter_that_is_not_there_is_refused_everywhere(api: Api, path: str) -> None:
    error = error_of(await api.get(f"{path}?nonsense=1"), 422, "VALIDATION_ERROR")
    assert error["message"].startswith(f"nonsense: GET {path} has no such parameter; ")


async def test_a_refusal_names_the_parameters_there_are(api: Api) -> None:
    answer = await api.get(f"{JOBS}?state=pending&status=pending")
    error = error_of(answer, 422, "VALIDATION_ERROR")
    assert error["message"] == (
        "status: GET /api/v1/jobs has no such parameter; there are: state, tenant_id, name, user,"
        " array_id, limit, cursor, fold, count (got 'pending')"
    )


async def test_a_change_with_a_parameter_that_is_not_there_changes_nothing(api: Api) -> None:
    await submitted(api, 1, job_id="mine")
    error = error_of(await api.delete(f"{JOBS}/mine?dry_run=true"), 422, "VALIDATION_ERROR")
    assert error["message"].startswith("dry_run: DELETE /api/v1/jobs/{job} has no such parameter")
    assert "it has none" in error["message"]
    assert (await api.get(f"{JOBS}/mine")).json()["state"] == "pending"


async def test_a_probe_may_ask_with_whatever_it_likes(api: Api) -> None:
    assert (await api.get("/api/v1/health?t=123")).status_code == 200


async def test_a_long_name_is_not_repeated_whole(api: Api) -> None:
    error = error_of(await api.get(f"{JOBS}?{'x' * 3000}=1"), 422, "VALIDATION_ERROR")
    assert len(error["message"]) < 400


def test_parameters_that_a_path_reads_itself_are_those_it_describes() -> None:
    (events,) = (
        route
        for route in router.routes
        if isinstance(route, APIRoute) and route.path == "/api/v1/events"
    )
    assert parameters_of(events) == ("after", "job_id", "tenant_id", "project_id", "readings")


# -- how many there are --------------------------------------------------------------------------


async def test_a_list_counts_all_pages_where_it_is_asked_to(api: Api) -> None:
    await submitted(api, 3)
    await submitted(api, 2, tenant_id="blue", name="train")
    await submitted(api, 1, array={"indexes": "1-5"})
    assert "total" not in (await api.get(f"{JOBS}?limit=2")).json()
    for query, total in (
        ("limit=2", 10),
        ("limit=2&cursor=3", 10),
        ("state=pending", 10),
        ("state=running", 0),
        ("tenant_id=blue", 2),
        ("name=rai", 2),
        ("fold=true", 6),
        ("fold=true&limit=1", 6),
    ):
        found = (await api.get(f"{JOBS}?count=true&{query}")).json()
        assert found["total"] == total, query


# -- whose queue it is ---------------------------------------------------------------------------


async def test_a_queue_is_made_in_the_project_that_the_query_names(api: Api) -> None:
    made = await api.post(f"{QUEUES}?project_id=blue", json={"name": "night"})
    assert made.status_code == 201, made.text
    assert made.json()["id"] == "blue:night"
    both = await api.post(f"{QUEUES}?project_id=blue", json={"name": "day", "project_id": "blue"})
    assert both.json()["id"] == "blue:day"
    found = (await api.get(f"{QUEUES}?project_id=default")).json()
    assert {queue["name"] for queue in found}.isdisjoint({"night", "day"})


async def test_a_queue_of_two_projects_is_refused_and_not_made(api: Api) -> None:
    body = {"name": "night", "project_id": "default"}
    error = error_of(
        await api.post(f"{QUEUES}?project_id=blue", json=body), 422, "VALIDATION_ERROR"
    )
    assert "the body names another project, 'default'" in error["message"]
    assert not any(queue["name"] == "night" for queue in (await api.get(QUEUES)).json())


async def test_a_queue_of_a_project_that_is_not_there_is_refused(api: Api) -> None:
    answer = await api.post(f"{QUEUES}?project_id=nobody", json={"name": "night"})
    assert answer.status_code == 404
    error = error_of(
        await api.post(f"{QUEUES}?tenant_id=blue", json={"name": "night"}), 422, "VALIDATION_ERROR"
    )
    assert error["message"].startswith("tenant_id: POST /api/v1/queues has no such parameter")
