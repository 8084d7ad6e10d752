"""Every path times every role times own and other tenants: who is let in, and what they see."""

import json
import re
from typing import Any

import pytest
from fastapi.routing import APIRoute, APIWebSocketRoute

from tests.integration.auth.door import OURS, ROLES, THEIRS, Door, a_door, as_role
from tgpu.api.rest.app import make_app
from tgpu.api.rest.rules import RULES
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import MembersSee, Tenant
from tgpu.service.identity.caller import Permission

PLAIN = {"gpu_type": "A100", "gpus": 1, "priority": 1, "submitted_at": 0}


def walked(routes: list[Any]) -> list[tuple[str, str]]:
    found = []
    for route in routes:
        if isinstance(route, APIRoute):
            found += [(method, route.path) for method in sorted(route.methods or ())]
        elif isinstance(route, APIWebSocketRoute):
            found.append(("WEBSOCKET", route.path))
        else:  # a router that was included, as newer versions of FastAPI keep it
            inner = getattr(route, "original_router", None)
            found += [] if inner is None else walked(inner.routes)
    return found


def routes() -> list[tuple[str, str]]:
    return walked(make_app(data_dir=None).routes)


HTTP = [route for route in routes() if route[0] != "WEBSOCKET"]


def test_every_path_has_its_rule_and_every_rule_its_path():
    assert set(routes()) == set(RULES)


def path_for(method: str, path: str, tenant: str) -> str:
    """The path with the things of one tenant in it."""
    values = {
        "job": f"{tenant}-1",
        "job_id": f"{tenant}-1",
        "array": f"{tenant}-1",
        "tenant_id": tenant,
        "project_id": tenant,
        "queue_id": f"{tenant}:night",
        "reservation_id": f"{tenant}-r",
        "index": "0",
        "node": "local",
        "key_id": "nokeyatall",
        "name": "local",
    }
    query = {"/schedule": "?now=0", "/ingest": "?fmt=ndjson", "/api/v1/events": "?after=999999"}
    query["/api/v1/sizes"] = "?model=m"
    if path.endswith("/wait"):
        query[path] = "?timeout=0"
    return re.sub(r"{(\w+)}", lambda found: values[found[1]], path) + query.get(path, "")


def body_for(path: str, tenant: str) -> dict[str, Any]:
    job = {"job_id": f"{tenant}-new", "tenant_id": tenant}
    bodies: dict[str, Any] = {
        "/jobs": {"json": job | PLAIN},
        "/jobs/batch": {"json": [job | PLAIN]},
        "/ingest": {"json": job | PLAIN},
        "/api/v1/jobs": {"json": job},
        "/api/v1/jobs/select": {"json": {"action": "hold", "jobs": [f"{tenant}-1"]}},
        "/api/v1/jobs/{job}": {"json": {"priority": 1}},
        "/api/v1/queues": {"json": {"project_id": tenant, "name": "day"}},
        "/api/v1/tenants": {"json": {"name": "new"}},
        "/api/v1/reservations": {"json": {"tenant_id": tenant, "gpus": 1, "minutes": 5}},
        "/api/v1/keys": {"json": {"name": "k", "role": "viewer", "tenants": [tenant]}},
    }
    if "{tenant_id}" in path or "{queue_id}" in path or "quota" in path:
        return {"json": {}}
    return dict(bodies.get(path, {}))


async def furnished(door: Door) -> None:
    for tenant in (OURS, THEIRS):
        await door.submit(f"{tenant}-1", tenant)
        body = {"project_id": tenant, "name": "night"}
        answer = await door.post("/api/v1/queues", json=body, headers=as_role("admin"))
        assert answer.status_code == 201, answer.text
        booked = {"tenant_id": tenant, "id": f"{tenant}-r", "gpus": 1, "minutes": 5}
        answer = await door.post("/api/v1/reservations", json=booked, headers=as_role("admin"))
        assert answer.status_code == 201, answer.text


async def call(door: Door, method: str, path: str, tenant: str, headers: dict[str, str]) -> Any:
    with_body = {} if method in ("GET", "DELETE") else body_for(path, tenant)
    return await door.request(method, path_for(method, path, tenant), headers=headers, **with_body)


@pytest.mark.parametrize(("method", "path"), HTTP, ids=lambda part: str(part))
async def test_who_shows_nothing_gets_nowhere_but_to_what_is_public(method, path):
    async with a_door() as door:
        answer = await call(door, method, path, OURS, {})
        if RULES[method, path] is Permission.PUBLIC:
            assert answer.status_code == 200
        else:
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHENTICATED")
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "path"), HTTP, ids=lambda part: str(part))
async def test_each_role_is_let_in_exactly_where_the_table_says(method, path):
    shared = Tenant(TenantId(OURS), members_see=MembersSee.LOGS)  # the viewer owns no job
    async with a_door(tenants=(shared, Tenant(TenantId(THEIRS)))) as door:
        await furnished(door)
        for role in ROLES:
            answer = await call(door, method, path, OURS, as_role(role))
            allowed = {
                Permission.PUBLIC: ROLES,
                Permission.READ: ROLES,
                Permission.CHANGE_JOBS: ROLES[:3],
                Permission.CONTROL_GPUS: ROLES[:2],
                Permission.TRIGGER: ROLES[:2],
                Permission.SEE_CLUSTER: ROLES[:2],
            }.get(RULES[method, path], ROLES[:1])
            assert (answer.status_code == 403) == (role not in allowed), (role, answer.text)
            assert answer.status_code not in (401, 500, 503), (role, answer.text)


# What names a thing of a tenant, so that a caller from elsewhere must be told there is none.
NAMED = [
    (method, path)
    for method, path in HTTP
    if re.search(r"{(job|job_id|tenant_id|project_id|queue_id|reservation_id)}", path)
]


@pytest.mark.parametrize("role", ["user", "viewer", "admin"])
@pytest.mark.parametrize(("method", "path"), NAMED, ids=lambda part: str(part))
async def test_what_is_another_tenants_answers_like_what_does_not_exist(method, path, role):
    async with a_door() as door:
        await furnished(door)
        caller = as_role(role, OURS)
        theirs = await call(door, method, path, THEIRS, caller)
        nobodys = await call(door, method, path, "nobodys", caller)
        assert theirs.status_code in (403, 404), theirs.text
        assert theirs.status_code == nobodys.status_code
        assert theirs.text.replace(THEIRS, "nobodys") == nobodys.text
        # Nothing has happened to it, and it is there for those whose it is.
        admin = as_role("admin")
        job = (await door.get(f"/api/v1/jobs/{THEIRS}-1", headers=admin)).json()
        assert (job["state"], job["held"]) == ("pending", False)
        assert (await door.get(f"/api/v1/queues/{THEIRS}:night", headers=admin)).status_code == 200


@pytest.mark.parametrize("path", ["/jobs", "/api/v1/jobs"])
async def test_a_job_for_another_tenant_is_refused_like_one_for_a_tenant_that_is_not_there(path):
    async with a_door() as door:
        caller = as_role("user")
        theirs = await call(door, "POST", path, THEIRS, caller)
        nobodys = await call(door, "POST", path, "nobodys", caller)
        assert theirs.status_code == nobodys.status_code == 422
        assert theirs.text.replace(THEIRS, "nobodys") == nobodys.text
        assert THEIRS not in nobodys.text


@pytest.mark.parametrize("path", ["/jobs/batch", "/ingest"])
async def test_of_a_bulk_only_the_callers_own_jobs_are_queued(path):
    async with a_door() as door:
        jobs = [{"job_id": f"b-{t}", "tenant_id": t} | PLAIN for t in (OURS, THEIRS, "nobodys")]
        sent: dict[str, Any] = {"json": jobs}
        if path == "/ingest":
            lines = "\n".join(json.dumps(job) for job in jobs)
            sent = {"content": lines, "params": {"fmt": "ndjson"}}
        answer = (await door.post(path, headers=as_role("user"), **sent)).json()
        assert answer["accepted"] == [f"b-{OURS}"]
        theirs, nobodys = answer["rejected"]
        assert (theirs["code"], nobodys["code"]) == ("VALIDATION_ERROR", "VALIDATION_ERROR")
        assert theirs["message"].replace(THEIRS, "nobodys") == nobodys["message"]


async def test_lists_show_the_callers_own_alone():
    async with a_door() as door:
        await furnished(door)
        user = as_role("user")

        async def seen(path: str) -> Any:
            return (await door.get(path, headers=user)).json()

        assert [job["job_id"] for job in (await seen("/api/v1/jobs"))["jobs"]] == [f"{OURS}-1"]
        assert (await seen(f"/api/v1/jobs?tenant_id={THEIRS}"))["jobs"] == []
        assert [t["id"] for t in (await seen("/api/v1/tenants"))["tenants"]] == [OURS]
        assert {q["project_id"] for q in await seen("/api/v1/queues")} == {OURS}
        booked = (await seen("/api/v1/reservations"))["reservations"]
        assert [(r["id"], r["tenant_id"]) for r in booked] == [(f"{OURS}-r", OURS)]
        marks = [r for gpu in (await seen("/api/v1/gpus"))["gpus"] for r in gpu["reservations"]]
        assert sorted(str(r["tenant_id"]) for r in marks) == ["None", OURS]
        assert (await seen("/stats"))["tenant_quotas"].keys() == {OURS}
        assert (await seen("/stats"))["total_jobs"] == 1
        assert (await seen("/api/v1/jobs/scheduler/info"))["pending_jobs"] == 1
        status = await seen("/api/v1/cluster/status")
        assert (status["total_jobs"], status["pending_jobs"]) == (1, 1)
        assert (status["data_dir"], status["store"], status["problem"]) == (None, "", None)


async def test_last_is_the_newest_job_that_the_caller_may_see():
    async with a_door() as door:
        await furnished(door)
        for role, newest in [("user", f"{OURS}-1"), ("admin", f"{THEIRS}-1")]:
            answer = await door.get("/api/v1/jobs/last", headers=as_role(role))
            assert answer.json()["job_id"] == newest


async def test_the_gpus_do_not_tell_whose_jobs_they_run():
    async with a_door() as door:
        await furnished(door)
        await door.post("/schedule?now=1", headers=as_role("admin"))
        everything = (await door.get("/api/v1/gpus", headers=as_role("admin"))).json()
        running = {job for gpu in everything["gpus"] for job in gpu["jobs"]}
        assert running == {f"{OURS}-1", f"{THEIRS}-1"}
        seen = (await door.get("/api/v1/gpus", headers=as_role("user"))).json()["gpus"]
        assert [job for gpu in seen for job in gpu["jobs"]] == [f"{OURS}-1"]
        assert sum(gpu["allocated"] for gpu in seen) == 2  # that it is busy is no secret


async def test_nobody_waits_for_another_tenants_job():
    async with a_door() as door:
        await furnished(door)
        answers = []
        for job_id in (f"{THEIRS}-1", "nobodys-1"):
            body = {"tenant_id": OURS, "after": [{"job_id": job_id}]}
            answers.append(await door.post("/api/v1/jobs", json=body, headers=as_role("user")))
        theirs, nobodys = answers
        assert theirs.status_code == nobodys.status_code == 422
        assert theirs.text.replace(THEIRS, "nobodys") == nobodys.text


async def test_a_job_names_the_user_who_really_sent_it():
    async with a_door() as door:
        body = {"job_id": "mine", "tenant_id": OURS, "user": "somebody-else"}
        await door.post("/api/v1/jobs", json=body, headers=as_role("user"))
        job = (await door.get("/api/v1/jobs/mine", headers=as_role("viewer"))).json()
        assert job["user"] == "user-ada"


async def test_without_authentication_everybody_is_admin():
    async with a_door(enabled=False) as door:
        assert (await door.get("/api/v1/keys")).status_code == 200
        who = (await door.get("/api/v1/whoami")).json()
        known = {"name": "local", "kind": "local", "role": "admin", "tenants": None}
        assert who.items() >= known.items()
