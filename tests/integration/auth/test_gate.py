"""The gate: limits, headers, and what is kept about every call that changes something."""

import json
from typing import Any

import pytest

from tests.integration.auth.door import OURS, THEIRS, a_door, a_token, as_role, bearer
from tests.unit.service.world import FailingStore
from tgpu.api.rest.body_limits import BodyLimits
from tgpu.core.model.ids import JobId
from tgpu.token_buckets import TokenBuckets

ADMIN = as_role("admin")


async def test_who_asks_too_often_is_told_when_to_come_back():
    async with a_door(buckets=TokenBuckets(0.5, 2)) as door:
        user = as_role("user")
        answers = [await door.get("/api/v1/jobs", headers=user) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        error = answers[2].json()["error"]
        assert (error["code"], answers[2].headers["retry-after"]) == ("RATE_LIMITED", "2")
        assert (await door.get("/api/v1/jobs", headers=as_role("viewer"))).status_code == 200


async def test_who_guesses_too_often_is_slowed_down_as_well():
    async with a_door(buckets=TokenBuckets(0.5, 2)) as door:
        answers = [await door.get("/api/v1/jobs", headers=bearer("guess")) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [401, 401, 429]


async def test_a_body_that_is_too_large_is_refused_before_it_is_read():
    async with a_door(body_limits=BodyLimits(1, 1)) as door:
        answer = await door.post("/jobs", content=b"x" * (1 << 20) + b"x", headers=ADMIN)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "TOO_LARGE")


@pytest.mark.parametrize(
    ("path", "piece"),
    [
        ("/jobs", b"x"),
        ("/jobs/batch", b" "),
        ("/api/v1/jobs", b"x"),
        ("/ingest?fmt=ndjson", b"\n"),
    ],
)
async def test_a_body_that_does_not_say_how_large_it_is_is_cut_off(path, piece):
    async def endless() -> Any:
        for _ in range(40):
            yield piece * 65_536

    async with a_door(body_limits=BodyLimits(1, 1, 1)) as door:
        headers = ADMIN | {"Content-Type": "application/json"}
        answer = await door.post(path, content=endless(), headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "TOO_LARGE")


async def test_a_packed_body_is_refused():
    async with a_door() as door:
        for kind in ("gzip", "deflate, br", "zstd"):
            headers = ADMIN | {"Content-Encoding": kind}
            answer = await door.post("/api/v1/jobs", content=b"x", headers=headers)
            code = answer.json()["error"]["code"]
            assert (answer.status_code, code) == (415, "UNSUPPORTED_ENCODING")
        plain = await door.post("/api/v1/jobs", json={}, headers=ADMIN | {"Content-Encoding": ""})
        assert plain.status_code != 415


async def test_a_query_of_very_many_parameters_is_refused():
    async with a_door() as door:
        for query in ("&".join(f"a{n}=1" for n in range(101)), "name=" + "x" * 20_000):
            answer = await door.get(f"/api/v1/jobs?{query}", headers=ADMIN)
            assert answer.status_code == 422
            assert answer.json()["error"]["message"].startswith("query: must have at most 100 ")


@pytest.mark.parametrize(
    ("path", "status"), [("/healthz", 200), ("/api/v1/jobs", 401), ("/nowhere", 401)]
)
async def test_every_answer_has_the_headers_of_a_careful_server(path, status):
    async with a_door() as door:
        answer = await door.get(path)
        assert answer.status_code == status
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
        assert answer.headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in answer.headers


async def test_strict_transport_is_asked_for_where_there_is_encryption():
    async with a_door() as door:
        answer = await door.get("https://127.0.0.1/healthz")
        assert answer.headers["strict-transport-security"].startswith("max-age=")


async def test_health_tells_strangers_no_details():
    async with a_door(store=FailingStore()) as door:
        door.box.service.writer.trouble = "/secret/place is full"
        stranger = (await door.get("/api/v1/health")).json()
        assert (stranger["status"], stranger["problems"]) == ("degraded", [])
        known = (await door.get("/api/v1/health", headers=ADMIN)).json()
        assert known["problems"] == ["store: /secret/place is full"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"Host": "localhost:8080"}, 201),
        ({"Host": "[::1]:8080"}, 201),
        ({"Host": "127.0.0.1:8080", "Origin": "http://127.0.0.1:8080"}, 201),
        ({"Host": "127.0.0.1:8080", "Origin": "https://evil.example"}, 403),
        ({"Host": "127.0.0.1:8080", "Origin": "null"}, 403),
        ({"Host": "rebound.evil.example:8080"}, 403),
        ({"Host": "rebound.evil.example", "Origin": "http://rebound.evil.example"}, 403),
    ],
)
async def test_no_web_page_uses_a_service_that_asks_nobody_who_they_are(headers, status):
    async with a_door(enabled=False) as door:
        answer = await door.post("/api/v1/jobs", json={"tenant_id": OURS}, headers=headers)
        assert answer.status_code == status


async def test_a_service_that_knows_its_callers_may_have_any_name():
    async with a_door() as door:
        headers = ADMIN | {"Host": "gpu.example.org", "Origin": "https://dashboard.example.org"}
        assert (await door.get("/api/v1/jobs", headers=headers)).status_code == 200


# -- the audit log ---------------------------------------------------------------------------------


async def test_a_change_is_on_record_with_who_what_when_and_from_where():
    async with a_door() as door:
        await door.submit("j", OURS)
        await door.post("/api/v1/jobs/j/hold", headers=as_role("user"))
        await door.post("/api/v1/jobs/j/hold", headers=bearer(a_token("user", [OURS], sub="bob")))
        refused, held, submitted = await door.audited()
        assert (refused["actor"], refused["target"]) == ("user:bob", "j")
        assert (refused["tenant_id"], refused["outcome"]) == (OURS, "FORBIDDEN")
        assert held["actor"] == "user:user-ada"
        assert held["action"] == "POST /api/v1/jobs/j/hold"
        assert (held["target"], held["tenant_id"], held["outcome"]) == ("j", OURS, "ok")
        assert held["origin"] == "127.0.0.1"
        assert held["at"].startswith("20")
        assert (submitted["actor"], submitted["target"]) == ("user:admin-ada", "j")
        assert submitted["tenant_id"] == OURS


async def test_a_change_and_its_row_are_in_one_commit():
    store = FailingStore()
    async with a_door(store=store) as door:
        await door.submit("j", OURS)
        (commit,) = [record for record in store.commits if record.audit]
        assert [job.job_id for event in commit.events for job in event.jobs] == [JobId("j")]  # type: ignore[union-attr]


async def test_nothing_is_on_record_of_a_change_that_could_not_be_recorded():
    store = FailingStore()
    async with a_door(store=store) as door:
        store.broken = "the disk is full"
        body = {"job_id": "j", "tenant_id": OURS}
        answer = await door.post("/api/v1/jobs", json=body, headers=ADMIN)
        assert answer.status_code == 503
        store.broken = None
        assert await door.audited() == []


@pytest.mark.parametrize(
    ("headers", "method", "path", "body", "outcome"),
    [
        (as_role("viewer"), "DELETE", "/api/v1/jobs/j", None, "FORBIDDEN"),
        (as_role("user"), "DELETE", "/api/v1/jobs/nobodys", None, "JOB_NOT_FOUND"),
        (as_role("user", THEIRS), "DELETE", "/api/v1/jobs/j", None, "JOB_NOT_FOUND"),
        (as_role("user"), "POST", "/api/v1/jobs", {"gpu_count": "x"}, "VALIDATION_ERROR"),
        (as_role("user"), "POST", "/api/v1/jobs/j/complete", None, "INVALID_STATE"),
        (as_role("user"), "POST", "/nowhere", None, "NOT_FOUND"),
        ({}, "POST", "/api/v1/jobs", {}, "UNAUTHENTICATED"),
    ],
)
async def test_a_refused_change_is_on_record_too(headers, method, path, body, outcome):
    async with a_door() as door:
        await door.submit("j", OURS)
        await door.request(method, path, json=body, headers=headers)
        refused = (await door.audited())[0]
        assert (refused["action"], refused["outcome"]) == (f"{method} {path}", outcome)


async def test_reading_leaves_no_trace():
    store = FailingStore()
    async with a_door(store=store) as door:
        before = len(store.commits)
        for path in ("/api/v1/jobs", "/api/v1/jobs/nobodys", "/stats", "/api/v1/gpus"):
            await door.get(path, headers=ADMIN)
        assert len(store.commits) == before


async def test_a_bulk_load_is_one_row_with_its_count():
    async with a_door() as door:
        plain = {"tenant_id": OURS, "gpu_type": "A100", "gpus": 1, "priority": 1, "submitted_at": 0}
        jobs = [{"job_id": f"j{number}", **plain} for number in range(200)]
        await door.post("/jobs/batch", json=jobs, headers=ADMIN)
        lines = "\n".join(json.dumps(job | {"job_id": f"i{n}"}) for n, job in enumerate(jobs))
        await door.post("/ingest?fmt=ndjson", content=lines, headers=ADMIN)
        ingested, batch = await door.audited()
        assert (batch["action"], batch["detail"]) == ("POST /jobs/batch", "200 jobs")
        assert (ingested["action"], ingested["detail"]) == ("POST /ingest", "200 jobs")


async def test_a_call_that_changed_nothing_says_so():
    async with a_door() as door:
        await door.submit("j", OURS)
        body = {"job_id": "j", "tenant_id": OURS, "gpu_count": 1, "user": "user-ada"}
        repeated = await door.post("/api/v1/jobs", json=body, headers=ADMIN)
        assert repeated.status_code == 200
        row = (await door.audited())[0]
        assert (row["outcome"], row["detail"]) == ("ok", "nothing was changed")


async def test_strangers_cannot_fill_the_audit_log():
    async with a_door() as door:
        for _ in range(60):
            await door.post("/api/v1/jobs", json={})
        (row,) = await door.audited()
        assert (row["actor"], row["outcome"]) == ("nobody", "UNAUTHENTICATED")


async def test_the_audit_log_is_read_page_by_page():
    async with a_door() as door:
        for number in range(5):
            await door.submit(f"j{number}", OURS if number % 2 else THEIRS)
        seen, cursor = [], ""
        while True:
            answer = await door.get(f"/api/v1/audit?limit=2{cursor}", headers=ADMIN)
            page = answer.json()
            seen += [entry["target"] for entry in page["entries"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert seen == ["j4", "j3", "j2", "j1", "j0"]
        ours = await door.get(f"/api/v1/audit?tenant_id={OURS}", headers=ADMIN)
        assert [entry["target"] for entry in ours.json()["entries"]] == ["j3", "j1"]


async def test_secrets_in_environments_are_never_shown():
    async with a_door() as door:
        body = {
            "job_id": "j",
            "tenant_id": OURS,
            "environment": {"WANDB_API_KEY": "s3cret-own", "SEED": "1"},
            "base_environment": {"AWS_SECRET_ACCESS_KEY": "s3cret-base", "HOME": "/home/hidden"},
        }
        await door.post("/api/v1/jobs", json=body, headers=ADMIN)
        for path in (
            "/api/v1/jobs",
            "/api/v1/jobs/j",
            "/api/v1/jobs/j/why",
            "/api/v1/jobs/j/events",
            "/api/v1/audit",
            "/api/v1/journal",
        ):
            text = (await door.get(path, headers=ADMIN)).text
            assert "s3cret" not in text
            assert "/home/hidden" not in text
        shown = (await door.get("/api/v1/jobs/j", headers=ADMIN)).json()["environment"]
        assert shown == {"WANDB_API_KEY": "******", "SEED": "1"}
