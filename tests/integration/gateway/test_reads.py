"""Reads through gateways: cached, shared, and never older than the caller's own change."""

import concurrent.futures
from collections.abc import Iterator

import httpx

from tests.integration.gateway.conftest import MakeGateway
from tests.real_service import RealService, eventually
from tests.servers.redis import RedisServer


def test_a_second_gateway_answers_from_what_the_first_one_asked(
    make_gateway: MakeGateway, redis_server: RedisServer
) -> None:
    one = make_gateway("--redis", redis_server.url, "--cache-seconds", "30")
    two = make_gateway("--redis", redis_server.url, "--cache-seconds", "30")
    one.until(events="shared")
    sizes = iter(range(1, 1000))

    def is_shared() -> bool:
        """Unless an event comes in between, which makes the answer useless."""
        path = f"/jobs?limit={next(sizes)}"
        asked, shared = one.get(path), two.get(path)
        assert shared.content == asked.content
        return [answer.headers["x-cache"] for answer in (asked, shared)] == ["miss", "hit"]

    eventually(is_shared, "an answer from the other's question", seconds=5)


def test_a_read_after_a_write_through_another_gateway_is_never_stale(
    make_gateway: MakeGateway, redis_server: RedisServer
) -> None:
    one = make_gateway("--redis", redis_server.url, "--cache-seconds", "60")
    two = make_gateway("--redis", redis_server.url, "--cache-seconds", "60")
    for _ in range(30):
        two.get("/jobs?limit=5")  # so that there is something old to be shown
        job_id = one.submit()
        assert two.get("/jobs?limit=5").json()["jobs"][0]["job_id"] == job_id
        assert two.get(f"/jobs/{job_id}").status_code == 200
        one.http.delete(f"/api/v1/jobs/{job_id}").raise_for_status()
        assert two.get(f"/jobs/{job_id}").json()["state"] == "cancelled"


def test_a_change_made_at_the_service_itself_is_seen_long_before_the_cache_expires(
    make_gateway: MakeGateway, redis_server: RedisServer, service: RealService
) -> None:
    gateway = make_gateway("--redis", redis_server.url, "--cache-seconds", "60")
    gateway.until(events="shared")
    gateway.get("/jobs?limit=1")
    job_id = service.http.post("/api/v1/jobs", json={"gpu_count": 1}).json()["job_id"]

    def is_shown() -> bool:
        return bool(gateway.get("/jobs?limit=1").json()["jobs"][0]["job_id"] == job_id)

    eventually(is_shown, "the new job", seconds=5)


def test_an_unchanged_answer_is_not_sent_again(make_gateway: MakeGateway) -> None:
    gateway = make_gateway("--cache-seconds", "30")
    first = gateway.get("/tenants")
    again = gateway.get("/tenants", **{"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]


def test_without_redis_reads_are_cached_in_the_process(make_gateway: MakeGateway) -> None:
    gateway = make_gateway("--cache-seconds", "30")
    gateway.get("/queues")
    assert gateway.get("/queues").headers["x-cache"] == "hit"
    job_id = gateway.submit()
    assert gateway.get("/jobs?limit=1").json()["jobs"][0]["job_id"] == job_id
    assert gateway.health()["redis"] == "off"


def test_what_is_not_cached_is_passed_through_with_status_and_headers(
    make_gateway: MakeGateway, service: RealService
) -> None:
    gateway = make_gateway()
    direct = service.http.get("/api/v1/jobs/nothing/why")
    passed = gateway.get("/jobs/nothing/why")
    assert "x-cache" not in passed.headers
    assert (passed.status_code, passed.content) == (direct.status_code, direct.content)
    own = {"x-request-id", "date"}
    assert {k: v for k, v in passed.headers.items() if k not in own} == {
        k: v for k, v in direct.headers.items() if k not in own
    }


def test_a_large_body_is_passed_through_as_a_stream(
    make_gateway: MakeGateway, service: RealService
) -> None:
    gateway = make_gateway()
    line = b'{"tenant_id": "default", "job_id": "%b-%d", "gpus": 1, "nonsense": true}\n'

    def form(name: bytes) -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="j"\r\n\r\n'
        for number in range(5_000):
            yield line % (name, number)
        yield b"\r\n--b--\r\n"

    def send(http: httpx.Client, name: bytes) -> httpx.Response:
        kind = {"Content-Type": "multipart/form-data; boundary=b"}
        return http.post("/ingest?fmt=ndjson", content=form(name), headers=kind)

    passed, direct = send(gateway.http, b"x"), send(service.http, b"x")
    assert passed.status_code == direct.status_code
    assert passed.json().keys() == direct.json().keys()


def test_many_at_once_cost_the_service_few_questions(
    make_gateway: MakeGateway, redis_server: RedisServer
) -> None:
    gateway = make_gateway("--redis", redis_server.url, "--cache-seconds", "30")
    gateway.until(events="shared")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: gateway.get("/jobs?limit=7"), range(64)))
    assert {answer.status_code for answer in answers} == {200}
    # A reading or an event in between may cost another one.
    assert sum(answer.headers["x-cache"] == "miss" for answer in answers) <= 3


def test_a_service_that_is_away_is_said_in_the_usual_shape(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(upstream="http://127.0.0.1:9")
    for answer in (
        gateway.get("/jobs"),
        gateway.get("/jobs/1/why"),
        httpx.post(f"{gateway.url}/api/v1/jobs", json={"gpu_count": 1}, trust_env=False),
    ):
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "UNAVAILABLE"
        assert answer.headers["retry-after"] == "1"


def test_pages_of_the_web_are_refused_as_the_service_refuses_them(
    make_gateway: MakeGateway,
) -> None:
    gateway = make_gateway("--cache-seconds", "30")
    gateway.until(events="shared")
    assert gateway.get("/jobs").status_code == 200
    for headers in ({"Host": "rebound.example"}, {"Origin": "http://page.example"}):
        for path in ("/jobs", "/jobs/1/why", "/events"):
            answer = gateway.get(path, **headers)
            assert (path, answer.status_code) == (path, 403)
