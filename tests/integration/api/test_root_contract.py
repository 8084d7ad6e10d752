"""The tick-driven contract at the root, path by path."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.integration.api.http import Api, a_plain_job, error_of, quickstart


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with quickstart() as made:
        yield made


async def submit(api: Api, *jobs: dict[str, object]) -> None:
    for job in jobs:
        answer = await api.post("/jobs", json=job)
        assert answer.status_code == 201, answer.text


async def tick(api: Api, now: int) -> list[str]:
    answer = await api.post("/schedule", params={"now": now})
    assert answer.status_code == 200, answer.text
    started: list[str] = answer.json()["started"]
    return started


async def status(api: Api, job_id: str) -> str:
    found: str = (await api.get(f"/jobs/{job_id}")).json()["status"]
    return found


# -- one job -----------------------------------------------------------------------------------


async def test_health(api: Api) -> None:
    answer = await api.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_a_job_goes_from_waiting_to_running_to_completed(api: Api) -> None:
    answer = await api.post("/jobs", json=a_plain_job("j1"))
    assert (answer.status_code, answer.json()) == (201, {"job_id": "j1", "status": "WAITING"})
    assert await status(api, "j1") == "WAITING"
    answer = await api.post("/schedule?now=120")
    assert answer.json() == {"started": ["j1"], "waiting": 0}
    assert await status(api, "j1") == "RUNNING"
    answer = await api.post("/jobs/j1/complete")
    assert (answer.status_code, answer.json()) == (200, {"job_id": "j1", "status": "COMPLETED"})
    assert await status(api, "j1") == "COMPLETED"


async def test_a_job_shows_what_was_submitted_and_when_it_ran(api: Api) -> None:
    await submit(api, a_plain_job("j1", priority=7, submitted_at=3))
    await tick(api, 120)
    await api.post("/jobs/j1/complete")
    assert (await api.get("/jobs/j1")).json() == {
        "job_id": "j1",
        "status": "COMPLETED",
        "tenant_id": "t1",
        "gpu_type": "A100",
        "gpus": 1,
        "priority": 7,
        "submitted_at": 3,
        "started_at": 120,
        "completed_at": 120,
    }


async def test_a_job_id_is_taken_once(api: Api) -> None:
    await submit(api, a_plain_job("j1"))
    for again in (a_plain_job("j1"), a_plain_job("j1", gpus=2)):
        error_of(await api.post("/jobs", json=again), 409, "DUPLICATE_JOB")
    await tick(api, 0)
    await api.post("/jobs/j1/complete")
    error_of(await api.post("/jobs", json=a_plain_job("j1")), 409, "DUPLICATE_JOB")


async def test_a_job_with_a_time_limit_ends_with_it(api: Api) -> None:
    await submit(api, a_plain_job("j1", max_runtime=30))
    await tick(api, 100)
    await tick(api, 129)
    assert await status(api, "j1") == "RUNNING"
    await tick(api, 130)
    assert await status(api, "j1") == "COMPLETED"


async def test_unknown_jobs_are_not_found(api: Api) -> None:
    error_of(await api.get("/jobs/nobody"), 404, "JOB_NOT_FOUND")
    error_of(await api.post("/jobs/nobody/complete"), 404, "JOB_NOT_FOUND")


async def test_only_a_running_job_can_be_completed(api: Api) -> None:
    await submit(api, a_plain_job("j1"))
    error = error_of(await api.post("/jobs/j1/complete"), 400, "INVALID_STATE")
    assert error["message"] == "job j1 is WAITING, not RUNNING"
    await tick(api, 0)
    await api.post("/jobs/j1/complete")
    error_of(await api.post("/jobs/j1/complete"), 400, "INVALID_STATE")


async def test_a_cancelled_job_shows_as_itself(api: Api) -> None:
    await submit(api, a_plain_job("j1"))
    await api.delete("/api/v1/jobs/j1")
    assert await status(api, "j1") == "CANCELLED"
    error_of(await api.post("/jobs/j1/complete"), 400, "INVALID_STATE")


async def test_extra_fields_are_left_alone(api: Api) -> None:
    await submit(api, a_plain_job("j1", comment="from another tool"))


async def test_a_job_that_never_fits_waits(api: Api) -> None:
    await submit(api, a_plain_job("big", gpus=64), a_plain_job("odd", gpu_type="B200"))
    assert await tick(api, 0) == []
    assert await status(api, "big") == "WAITING"


async def test_before_the_service_is_ready_every_path_says_so(api: Api) -> None:
    api.app.state.service = None
    for method, path in (
        ("GET", "/healthz"),
        ("POST", "/jobs"),
        ("POST", "/jobs/batch"),
        ("POST", "/ingest?fmt=ndjson"),
        ("POST", "/schedule?now=1"),
        ("POST", "/jobs/j/complete"),
        ("GET", "/jobs/j"),
        ("GET", "/stats"),
        ("GET", "/api/v1/jobs"),
        ("GET", "/api/v1/health"),
    ):
        json = a_plain_job("j") if path == "/jobs" else []
        answer = await api.request(method, path, json=json if method == "POST" else None)
        error_of(answer, 503, "SERVICE_NOT_READY")


# -- ticks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "?now=", "?now=x", "?now=1.5", "?now=true", "?then=1"])
async def test_a_tick_needs_an_integer_now(api: Api, query: str) -> None:
    await submit(api, a_plain_job("j1"))
    error = error_of(await api.post(f"/schedule{query}"), 422, "VALIDATION_ERROR")
    assert error["message"].startswith("now: ")
    assert await status(api, "j1") == "WAITING"


async def test_started_is_in_the_order_of_the_rule(api: Api) -> None:
    """Effective priority first, then the earlier submission, then the smaller id."""
    await submit(
        api,
        a_plain_job("low", priority=1, submitted_at=100),
        a_plain_job("aged", priority=1, submitted_at=0, tenant_id="t2"),  # 1 + 120 // 60
        a_plain_job("late", priority=3, submitted_at=119, tenant_id="t2"),
        a_plain_job("b", priority=1, submitted_at=100, gpu_type="H100"),
        a_plain_job("a", priority=1, submitted_at=100, gpu_type="H100", tenant_id="t2"),
    )
    assert await tick(api, 120) == ["aged", "late", "a", "b", "low"]


async def test_quota_and_capacity_hold_and_what_fits_passes(api: Api) -> None:
    await submit(
        api,
        a_plain_job("two", gpus=2, priority=9),
        a_plain_job("over-quota", gpus=1, priority=8),
        a_plain_job("other-tenant", gpus=2, priority=1, tenant_id="t2"),
    )
    answer = await api.post("/schedule?now=0")
    assert answer.json() == {"started": ["two", "other-tenant"], "waiting": 1}
    await api.post("/jobs/two/complete")
    assert await tick(api, 1) == ["over-quota"]


async def test_time_may_be_negative_and_may_go_back(api: Api) -> None:
    await submit(api, a_plain_job("j1", submitted_at=-500))
    assert await tick(api, -60) == ["j1"]
    await submit(api, a_plain_job("j2"))
    assert await tick(api, -100) == ["j2"]


# -- stats -------------------------------------------------------------------------------------


async def test_stats_of_an_empty_service(api: Api) -> None:
    assert (await api.get("/stats")).json() == {
        "total_jobs": 0,
        "jobs": {"WAITING": 0, "RUNNING": 0, "COMPLETED": 0},
        "running": [],
        "waiting": 0,
        "capacity": {
            "total": {"A100": 4, "H100": 2},
            "used": {"A100": 0, "H100": 0},
            "available": {"A100": 4, "H100": 2},
        },
        "tenant_quotas": {"t1": {"A100": 2, "H100": 1}, "t2": {"A100": 2, "H100": 1}},
    }


async def test_stats_count_jobs_and_gpus_and_list_what_runs_by_start_then_id(api: Api) -> None:
    await submit(api, a_plain_job("z"))
    await tick(api, 10)
    await submit(api, a_plain_job("b", gpu_type="H100"), a_plain_job("a", tenant_id="t2"))
    await tick(api, 20)
    await submit(api, a_plain_job("waits", gpus=4), a_plain_job("done", tenant_id="t2"))
    await tick(api, 30)
    await api.post("/jobs/done/complete")
    stats = (await api.get("/stats")).json()
    assert stats["running"] == ["z", "a", "b"]
    assert stats["jobs"] == {"WAITING": 1, "RUNNING": 3, "COMPLETED": 1}
    assert (stats["total_jobs"], stats["waiting"]) == (5, 1)
    assert stats["capacity"]["used"] == {"A100": 2, "H100": 1}
    assert stats["capacity"]["available"] == {"A100": 2, "H100": 1}


# -- batches -----------------------------------------------------------------------------------


async def test_a_batch_is_taken_in_part(api: Api) -> None:
    await submit(api, a_plain_job("old"))
    batch = [
        a_plain_job("a"),
        a_plain_job("old"),
        a_plain_job("b", gpus=0),
        a_plain_job("c", tenant_id="nobody"),
        a_plain_job("a"),
        17,
        a_plain_job("d"),
    ]
    answer = await api.post("/jobs/batch", json=batch)
    body = answer.json()
    assert answer.status_code == 200
    assert body["accepted"] == ["a", "d"]
    assert body["counts"] == {"accepted": 2, "rejected": 5}
    assert [(r["index"], r["job_id"], r["code"]) for r in body["rejected"]] == [
        (1, "old", "DUPLICATE_JOB"),
        (2, "b", "VALIDATION_ERROR"),
        (3, "c", "VALIDATION_ERROR"),
        (4, "a", "DUPLICATE_JOB"),
        (5, None, "PARSE_ERROR"),
    ]
    assert body["rejected"][1]["message"] == "gpus: must be at least 1 (got 0)"


async def test_an_empty_batch_is_nothing(api: Api) -> None:
    answer = await api.post("/jobs/batch", json=[])
    assert answer.json() == {
        "accepted": [],
        "rejected": [],
        "counts": {"accepted": 0, "rejected": 0},
    }


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b"[1,", b'"x"', b"\xff", b"[" * 100_000])
async def test_a_batch_that_is_no_list_is_refused(api: Api, body: bytes) -> None:
    error = error_of(await api.post("/jobs/batch", content=body), 422, "VALIDATION_ERROR")
    assert error["message"].startswith("body: must be a JSON list of jobs: ")


async def test_of_very_many_refusals_some_are_told_and_all_are_counted(api: Api) -> None:
    answer = (await api.post("/jobs/batch", content=b"[" + b"0," * 30_000 + b"0]")).json()
    assert answer["counts"] == {"accepted": 0, "rejected": 30_001}
    assert [row["index"] for row in answer["rejected"]] == list(range(1_000))


async def test_a_list_that_breaks_off_is_told_with_what_was_taken_before(api: Api) -> None:
    jobs = ",".join(json.dumps(a_plain_job(f"b{n}")) for n in range(5_001))
    answer = (await api.post("/jobs/batch", content=f"[{jobs}")).json()
    assert answer["counts"] == {"accepted": 5_001, "rejected": 1}
    assert answer["rejected"][0]["message"].startswith("nothing from here on was read: body: must")


# -- files -------------------------------------------------------------------------------------

HEADER = "job_id,tenant_id,gpu_type,gpus,priority,submitted_at"


async def ingest(api: Api, fmt: str, content: str | bytes) -> httpx.Response:
    return await api.post("/ingest", params={"fmt": fmt}, files={"file": ("jobs", content)})


async def test_ndjson_is_taken_in_part_with_the_line_of_each_refusal(api: Api) -> None:
    lines = [
        '{"job_id":"a","tenant_id":"t1","gpu_type":"A100","gpus":1,"priority":1,"submitted_at":0}',
        "",
        "not json",
        "[1, 2]",
        '{"job_id":"b","tenant_id":"t1","gpu_type":"A100","gpus":"x","priority":1,"submitted_at":0}',
        '{"job_id":"c"}',
        '{"job_id":"a","tenant_id":"t1","gpu_type":"A100","gpus":1,"priority":1,"submitted_at":0}',
        '{"gpus":"x", and then nothing that is JSON',
        '{"job_id":"\\ud800","tenant_id":"t1"}',
    ]
    body = (await ingest(api, "ndjson", "\r\n".join(lines))).json()
    assert body["accepted"] == ["a"]
    assert [(r["line"], r["job_id"], r["code"]) for r in body["rejected"]] == [
        (3, None, "PARSE_ERROR"),
        (4, None, "PARSE_ERROR"),
        (5, "b", "VALIDATION_ERROR"),
        (6, "c", "VALIDATION_ERROR"),
        (7, "a", "DUPLICATE_JOB"),
        (8, None, "PARSE_ERROR"),
        (9, None, "PARSE_ERROR"),
    ]
    assert body["counts"] == {"accepted": 1, "rejected": 7}


async def test_csv_with_and_without_a_time_limit(api: Api) -> None:
    body = (await ingest(api, "csv", f"{HEADER}\na,t1,A100,1,5,0\n")).json()
    assert body["accepted"] == ["a"]
    text = f"{HEADER},max_runtime\nb,t2,A100,1,5,0,30\nc,t2,A100,1,5,0,\n"
    assert (await ingest(api, "csv", text)).json()["accepted"] == ["b", "c"]
    await tick(api, 0)
    await tick(api, 30)
    assert [await status(api, name) for name in "abc"] == ["RUNNING", "COMPLETED", "RUNNING"]


@pytest.mark.parametrize(
    "text",
    [
        f"{HEADER}\r\na,t1,A100,1,5,0\r\n",
        f"\ufeff{HEADER}\na,t1,A100,1,5,0",
        f"{HEADER}\n\n  \n,,,,,\na,t1,A100,1,5,0\n\n",
        '"job_id","tenant_id","gpu_type","gpus","priority","submitted_at"\n'
        '"a","t1","A100","1","5","0"\n',
        "gpus, priority ,job_id,tenant_id,gpu_type,submitted_at,note\n1, 5,a, t1 ,A100,0,hi\n",
    ],
    ids=["CRLF", "BOM", "blank lines", "quoted", "other order and columns"],
)
async def test_csv_as_programs_write_it(api: Api, text: str) -> None:
    body = (await ingest(api, "csv", text)).json()
    assert (body["accepted"], body["rejected"]) == (["a"], [])
    assert (await api.get("/jobs/a")).json()["tenant_id"] == "t1"


async def test_csv_is_taken_in_part_with_the_line_of_each_refusal(api: Api) -> None:
    rows = [
        "a,t1,A100,1,5,0",
        "b,t1,A100,one,5,0",
        "c,t1,A100,1",
        f"d,t1,{'x' * 200_000},1,5,0",
        "e,t1,A100,1.5,5,0",
        "f,t1,A100,,5,0",
        "g,t1,A100,1,5,0",
    ]
    body = (await ingest(api, "csv", "\n".join([HEADER, *rows]))).json()
    assert body["accepted"] == ["a", "g"]
    assert [(r["line"], r["job_id"], r["code"]) for r in body["rejected"]] == [
        (3, "b", "VALIDATION_ERROR"),
        (4, None, "PARSE_ERROR"),
        (5, None, "PARSE_ERROR"),
        (6, "e", "VALIDATION_ERROR"),
        (7, "f", "VALIDATION_ERROR"),
    ]


async def test_a_first_row_that_cannot_be_read_is_not_the_header_s_fault(api: Api) -> None:
    text = f"{HEADER}\nd,t1,{'x' * 200_000},1,5,0\na,t1,A100,1,5,0"
    body = (await ingest(api, "csv", text)).json()
    assert body["accepted"] == ["a"]
    assert [(r["line"], r["code"]) for r in body["rejected"]] == [(2, "PARSE_ERROR")]


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("x" * 200_000, "the header cannot be read"),
        ("", "the header lacks: job_id, tenant_id, gpu_type, gpus, priority, submitted_at"),
        ("job_id,tenant_id,gpu_type,priority,submitted_at", "the header lacks: gpus"),
        (f"{HEADER},job_id", "the header has twice: job_id"),
    ],
)
async def test_csv_needs_its_header(api: Api, header: str, complaint: str) -> None:
    error = error_of(await ingest(api, "csv", header), 422, "VALIDATION_ERROR")
    assert complaint in error["message"]


async def test_a_plain_job_with_an_image_is_refused_and_others_of_its_file_are_taken(
    api: Api,
) -> None:
    body = (
        await ingest(api, "csv", f"{HEADER},image\na,t1,A100,1,5,0,\nb,t1,A100,1,5,0,x:1\n")
    ).json()
    assert (body["accepted"], [row["job_id"] for row in body["rejected"]]) == (["a"], ["b"])
    sentence = (
        "image: a plain job is a lease and runs in no container image; leave it out (got 'x:1')"
    )
    assert body["rejected"][0]["message"] == sentence
    answer = await api.post("/jobs", json=a_plain_job("c", image="x:1"))
    assert error_of(answer, 422, "VALIDATION_ERROR")["message"] == sentence


async def test_an_empty_ndjson_file_is_nothing(api: Api) -> None:
    body = (await ingest(api, "ndjson", "")).json()
    assert body["counts"] == {"accepted": 0, "rejected": 0}


async def test_ndjson_may_begin_with_a_byte_order_mark(api: Api) -> None:
    line = (
        '{"job_id":"a","tenant_id":"t1","gpu_type":"A100","gpus":1,"priority":1,"submitted_at":0}'
    )
    assert (await ingest(api, "ndjson", "\ufeff" + line)).json()["accepted"] == ["a"]


@pytest.mark.parametrize("query", ["?fmt=xml", "", "?fmt=", "?fmt=NDJSON"])
async def test_an_unknown_format_is_refused(api: Api, query: str) -> None:
    answer = await api.post(f"/ingest{query}", files={"file": b""})
    error_of(answer, 400, "BAD_FORMAT")


@pytest.mark.parametrize("fmt", ["ndjson", "csv"])
async def test_a_file_that_is_not_utf_8_is_refused_whole(api: Api, fmt: str) -> None:
    content = f"{HEADER}\na,t1,A100,1,5,0\né".encode("latin-1")
    error_of(await ingest(api, fmt, content), 400, "BAD_ENCODING")
    assert (await api.get("/stats")).json()["total_jobs"] == 0


async def test_the_file_of_a_form_is_the_part_named_file(api: Api) -> None:
    form = {"note": (None, "hello"), "file": ("jobs.csv", f"{HEADER}\na,t1,A100,1,5,0")}
    answer = await api.post("/ingest?fmt=csv", files=form)
    assert answer.json()["accepted"] == ["a"]


async def test_a_form_without_a_file_says_so(api: Api) -> None:
    answer = await api.post("/ingest?fmt=csv", files={"upload": ("jobs.csv", HEADER)})
    error = error_of(answer, 422, "VALIDATION_ERROR")
    assert "upload" in error["message"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=b", b"x"),
        ("multipart/form-data; boundary=b", b""),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\ncut off',
        ),
    ],
)
async def test_a_broken_form_is_refused(api: Api, kind: str, body: bytes) -> None:
    answer = await api.post("/ingest?fmt=ndjson", content=body, headers={"content-type": kind})
    error_of(answer, 422, "VALIDATION_ERROR")


async def test_a_file_may_be_the_body_itself(api: Api) -> None:
    answer = await api.post("/ingest?fmt=csv", content=f"{HEADER}\na,t1,A100,1,5,0")
    assert answer.json()["accepted"] == ["a"]


async def test_a_hundred_thousand_lines(api: Api) -> None:
    lines = "\n".join(
        f'{{"job_id":"j{n}","tenant_id":"t1","gpu_type":"A100","gpus":1,"priority":{n % 7},'
        f'"submitted_at":{n % 100}}}'
        for n in range(100_000)
    )
    body = (await ingest(api, "ndjson", lines)).json()
    assert body["counts"] == {"accepted": 100_000, "rejected": 0}
    assert body["accepted"] == [f"j{n}" for n in range(100_000)]
    # The best of them: priority 6, submitted earliest, and the smallest of these ids as text.
    assert await tick(api, 0) == ["j1000", "j10100"]
