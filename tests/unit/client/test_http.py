import json
from collections.abc import Callable

import httpx
import pytest

from tests.unit.cli.builders import a_job
from tgpu.client.errors import BadAnswer, ClientError, Lost, NoService
from tgpu.client.http import Client
from tgpu.client.target import parse_target
from tgpu.wire.v1 import SubmitRequest

HERE = parse_target("http://127.0.0.1:8080")
Handler = Callable[[httpx.Request], httpx.Response]


def client_of(handler: Handler) -> Client:
    return Client(HERE, transport=httpx.MockTransport(handler))


def answering(body: object, status: int = 200) -> Client:
    return client_of(lambda request: httpx.Response(status, json=body))


def test_a_submission_sends_only_what_was_said():
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append((request.method, request.url.path, json.loads(request.content)))
        return httpx.Response(201, json={"job_id": "12"})

    with client_of(handler) as client:
        assert client.submit(SubmitRequest(command=["x"], gpu_count=2)).job_id == "12"
    assert seen == [("POST", "/api/v1/jobs", {"command": ["x"], "gpu_count": 2})]


def test_an_error_answer_keeps_code_sentence_and_details():
    body = {"error": {"code": "CONFLICT", "message": "no", "details": [{"a": 1}]}}
    with answering(body, 409) as client, pytest.raises(ClientError) as caught:
        client.cancel_job("12")
    error = caught.value
    assert (error.code, error.message, error.details, error.status) == (
        "CONFLICT",
        "no",
        [{"a": 1}],
        409,
    )


def test_a_page_that_is_not_ours_is_a_bad_answer():
    with answering("<html>", 404) as client, pytest.raises(BadAnswer, match="HTTP status 404"):
        client.health()


def test_an_answer_of_another_shape_names_the_field():
    with answering({"status": "ok"}) as client, pytest.raises(BadAnswer, match="version"):
        client.health()


def test_what_a_newer_service_says_beyond_our_knowledge_is_no_error():
    body = {"status": "healthy", "version": "9", "pid": 1, "problems": [], "mood": "good"}
    with answering(body) as client:
        assert client.health().version == "9"


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (httpx.ConnectError("[Errno 111] Connection refused"), NoService),
        (httpx.ConnectTimeout("slow"), NoService),
        (httpx.ReadError("reset"), Lost),
        (httpx.RemoteProtocolError("gone"), Lost),
        (httpx.ReadTimeout("slow"), Lost),
    ],
)
def test_no_connection_and_a_lost_one_are_different_things(raised, kind):
    def handler(request: httpx.Request) -> httpx.Response:
        raise raised

    with client_of(handler) as client, pytest.raises(kind):
        client.submit(SubmitRequest(command=["x"]))


def test_ids_are_quoted_in_paths():
    paths = []

    def handler(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.raw_path.decode())
        return httpx.Response(200, json=a_job("a/b c").model_dump())

    with client_of(handler) as client:
        client.get_job("a/b c")
    assert paths == ["/api/v1/jobs/a%2Fb%20c"]


@pytest.mark.parametrize("job_id", ["", ".", ".."])
def test_ids_that_would_change_the_path_are_never_sent(job_id):
    def handler(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    with client_of(handler) as client, pytest.raises(ClientError) as caught:
        client.cancel_job(job_id)
    assert caught.value.code == "JOB_NOT_FOUND"


def test_all_pages_are_read_up_to_the_limit():
    queries = []

    def handler(request: httpx.Request) -> httpx.Response:
        queries.append(dict(request.url.params))
        start = int(request.url.params.get("cursor", 0))
        jobs = [a_job(str(start + n)).model_dump() for n in range(2)]
        return httpx.Response(200, json={"jobs": jobs, "next_cursor": start + 2})

    with client_of(handler) as client:
        found = [job.job_id for job in client.iter_jobs(4, states=["pending", "running"])]
    assert found == ["0", "1", "2", "3"]
    assert queries == [
        {"state": "pending,running", "limit": "4"},
        {"state": "pending,running", "limit": "2", "cursor": "2"},
    ]


def test_a_log_chunk_says_where_it_is_and_whether_it_is_the_last():
    headers = {"X-Log-Offset": "5", "X-Log-Size": "8", "X-Log-Complete": "true"}
    with client_of(lambda r: httpx.Response(200, content=b"abc", headers=headers)) as client:
        chunk = client.read_log("12", "stderr", offset=5)
    assert (chunk.data, chunk.end, chunk.is_last) == (b"abc", 8, True)


def test_a_log_without_its_headers_is_a_bad_answer():
    with client_of(lambda r: httpx.Response(200, content=b"")) as client, pytest.raises(BadAnswer):
        client.read_log("12")
