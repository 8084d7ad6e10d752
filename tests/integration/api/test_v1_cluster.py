"""/api/v1: GPUs, status, health, unknown paths, the OpenAPI document."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.api.http import Api, an_api, error_of
from tests.unit.service.processes import a_process
from tgpu import __version__
from tgpu.devices.api import GpuProcess


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(gpus="sim:2xA100") as made:
        yield made


async def gpus(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get("/api/v1/gpus")).json()["gpus"]
    return found


async def test_gpus_say_who_has_them_and_how_they_feel(api: Api) -> None:
    api.box.gpus.set(1, temperature_c=77, memory_used_mib=5, processes=[GpuProcess(1, 5)])
    await api.box.service.gpu_monitor.look()
    job_id = (await api.post("/api/v1/jobs", json={"command": ["t"]})).json()["job_id"]
    half = (await api.post("/api/v1/jobs", json={"gpu_count": 0.5})).json()["job_id"]
    await api.box.run(job_id)
    found = await gpus(api)
    owners = {gpu["index"]: (gpu["status"], gpu["allocated"], gpu["jobs"]) for gpu in found}
    assert sorted(owners.values()) == [("busy", 1.0, [job_id]), ("shared", 0.5, [half])]
    assert (found[1]["temperature_c"], found[1]["memory_used_mb"]) == (77, 5)
    assert found[1]["processes"][0]["job_id"] is None


async def test_a_gpu_is_paused_and_resumed(api: Api) -> None:
    answer = await api.post("/api/v1/gpus/1/pause", json={"reason": "new fans"})
    assert answer.status_code == 200
    assert (answer.json()["status"], answer.json()["paused"]) == ("paused", "new fans")
    assert [gpu["status"] for gpu in await gpus(api)] == ["free", "paused"]
    answer = await api.post("/api/v1/gpus/1/resume")
    assert (answer.json()["status"], answer.json()["paused"]) == ("free", None)


async def test_a_pause_needs_no_reason(api: Api) -> None:
    bodies: list[dict[str, str] | None] = [{}, None]
    for body in bodies:
        answer = await api.post("/api/v1/gpus/0/pause", json=body)
        assert answer.json()["paused"] == "paused by an operator"


@pytest.mark.parametrize(
    ("reason", "complaint"),
    [
        ("", "reason: must not be empty"),
        ("x" * 501, "reason: must have at most 500 characters"),
        ("a\0b", "reason: must not contain NUL"),
        (5, "reason: must be text (got 5)"),
    ],
)
async def test_a_reason_that_cannot_be_is_refused(api: Api, reason: object, complaint: str) -> None:
    answer = await api.post("/api/v1/gpus/0/pause", json={"reason": reason})
    assert error_of(answer, 422, "VALIDATION_ERROR")["message"].startswith(complaint)
    assert [gpu["paused"] for gpu in await gpus(api)] == [None, None]


async def test_unknown_gpus_are_named_with_those_there_are(api: Api) -> None:
    for action in ("pause", "resume"):
        error = error_of(await api.post(f"/api/v1/gpus/7/{action}"), 404, "NOT_FOUND")
        assert "0, 1" in error["message"]
        error_of(await api.post(f"/api/v1/gpus/x/{action}"), 422, "VALIDATION_ERROR")
        error_of(await api.post(f"/api/v1/gpus/-1/{action}"), 422, "VALIDATION_ERROR")


async def test_a_lost_gpu_is_shown_and_the_service_is_degraded(api: Api) -> None:
    api.box.gpus.set(0, lost=True)
    await api.box.service.gpu_monitor.look()
    assert (await gpus(api))[0]["status"] == "problem"
    health = (await api.get("/api/v1/health")).json()
    assert health["status"] == "degraded"
    assert health["problems"][0].startswith("GPU 0: ")


async def test_a_process_is_adopted_as_a_lease_with_its_name(api: Api) -> None:
    with a_process() as process:
        api.box.gpus.set(1, processes=[GpuProcess(process.pid, 70_000)])
        answer = await api.post("/api/v1/adopt", json={"pid": process.pid, "name": "notebook"})
        assert answer.status_code == 201
        lease = answer.json()
        assert (lease["state"], lease["gpus"], lease["name"]) == ("running", [1], "notebook")
        assert (await gpus(api))[1]["processes"][0]["job_id"] == lease["job_id"]
        error_of(await api.post("/api/v1/adopt", json={"pid": process.pid}), 409, "CONFLICT")


async def test_a_process_is_adopted_on_the_node_that_is_named() -> None:
    async with an_api(gpus="sim:1xA100", nodes={"b": "sim:1xA100"}) as api:
        with a_process() as process:
            for gpus_there in api.box.gpus_of.values():
                gpus_there.set(0, processes=[GpuProcess(process.pid, 70_000)])
            body = {"pid": process.pid}
            unseen = await api.post("/api/v1/adopt", json={**body, "node": "b"})
            assert "cannot be seen from here" in error_of(unseen, 409, "CONFLICT")["message"]
            nowhere = await api.post("/api/v1/adopt", json={**body, "node": "c"})
            assert "there are: local, b" in error_of(nowhere, 404, "NOT_FOUND")["message"]
            lease = (await api.post("/api/v1/adopt", json={**body, "node": "local"})).json()
            assert (lease["state"], lease["gpu_names"]) == ("running", ["local/0"])


@pytest.mark.parametrize("pid", [0, -1, "x", None, 2**31, True])
async def test_a_pid_that_cannot_be_is_refused(api: Api, pid: object) -> None:
    error_of(await api.post("/api/v1/adopt", json={"pid": pid}), 422, "VALIDATION_ERROR")


async def test_health_is_at_two_places(api: Api) -> None:
    for path in ("/health", "/api/v1/health"):
        body = (await api.get(path)).json()
        assert (body["status"], body["version"], body["problems"]) == ("healthy", __version__, [])


async def test_the_cluster_in_numbers(api: Api) -> None:
    job_id = (await api.post("/api/v1/jobs", json={"command": ["t"]})).json()["job_id"]
    await api.post("/api/v1/jobs", json={"command": ["t"], "hold": True})
    await api.box.run(job_id)
    body = (await api.get("/api/v1/cluster/status")).json()
    assert (body["total_nodes"], body["online_nodes"]) == (1, 1)
    assert (body["total_gpus"], body["available_gpus"]) == (2, 1)
    assert (body["total_jobs"], body["running_jobs"], body["pending_jobs"]) == (2, 1, 1)
    assert (body["simulated"], body["clock"], body["policy"]) == (True, "manual", "priority")
    assert body["jobs_by_state"]["running"] == 1


@pytest.mark.parametrize(
    "path", ["/nope", "/api/v1", "/api/v2/jobs", "/api/v1/jobs/a%2Fb", "/jobs/a/b/c", "/docs/x/y"]
)
async def test_unknown_paths_have_our_shape(api: Api, path: str) -> None:
    error = error_of(await api.get(path), 404, "NOT_FOUND")
    assert "there is nothing at" in error["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/stats"), ("PUT", "/api/v1/jobs"), ("GET", "/schedule"), ("PATCH", "/jobs/j")],
)
async def test_wrong_methods_have_our_shape(api: Api, method: str, path: str) -> None:
    answer = await api.request(method, path)
    error = error_of(answer, 405, "METHOD_NOT_ALLOWED")
    assert error["message"] == f"{method} is not allowed at {path}"
    assert answer.headers["allow"]


async def test_a_bug_is_answered_in_our_shape_and_gives_nothing_away(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("inner secrets")

    monkeypatch.setattr(api.box.service, "problems", broken)
    answer = await api.get("/api/v1/health")
    error = error_of(answer, 500, "INTERNAL_ERROR")
    assert "inner secrets" not in str(error)


# -- the OpenAPI document --------------------------------------------------------------------


CONTRACT = """
GET /healthz
POST /jobs
POST /jobs/batch
POST /ingest
POST /schedule
POST /jobs/{job_id}/complete
GET /jobs/{job_id}
GET /stats
POST /api/v1/jobs
GET /api/v1/jobs
GET /api/v1/jobs/{job}
DELETE /api/v1/jobs/{job}
POST /api/v1/jobs/{job}/hold
POST /api/v1/jobs/{job}/release
POST /api/v1/jobs/{job}/complete
POST /api/v1/jobs/{job}/rerun
GET /api/v1/jobs/{job}/wait
GET /api/v1/jobs/{job}/why
GET /api/v1/jobs/{job}/logs
GET /api/v1/gpus
POST /api/v1/gpus/{index}/pause
POST /api/v1/gpus/{index}/resume
GET /api/v1/cluster/status
GET /api/v1/health
"""


async def operations(api: Api) -> dict[str, dict[str, Any]]:
    document = (await api.get("/openapi.json")).json()
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


async def test_the_document_lists_every_path_of_the_contract(api: Api) -> None:
    assert set(CONTRACT.split("\n")) - {""} <= (await operations(api)).keys()


async def test_every_error_of_the_document_has_our_shape(api: Api) -> None:
    components = (await api.get("/openapi.json")).json()["components"]
    for name, operation in (await operations(api)).items():
        errors = {
            status: answer
            for status, answer in operation["responses"].items()
            if status == "default" or int(status) >= 400
        }
        assert errors, name
        for status, answer in errors.items():
            where = answer.get("$ref", "").rpartition("/")[2]
            described = components["responses"][where] if where else answer
            schema = described["content"]["application/json"]["schema"]
            assert schema["$ref"].endswith("/ErrorAnswer"), (name, status)
    assert "HTTPValidationError" not in components["schemas"]


async def test_every_operation_of_the_document_says_what_it_does(api: Api) -> None:
    for name, operation in (await operations(api)).items():
        assert operation.get("description"), name


async def test_paths_that_read_their_body_themselves_describe_it(api: Api) -> None:
    paths = (await api.get("/openapi.json")).json()["paths"]
    one = paths["/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "gpu_type" in one["properties"]
    many = paths["/jobs/batch"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert many["type"] == "array"
    assert "multipart/form-data" in paths["/ingest"]["post"]["requestBody"]["content"]
