"""Request ids, and the line that each request leaves."""

import httpx
import pytest
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.unit.telemetry.log_lines import log_lines
from tgpu.log import request_id
from tgpu.settings.model import LoggingSettings
from tgpu.telemetry.requests import RequestLog


async def say_id(request: Request) -> PlainTextResponse:
    structlog.get_logger("tgpu.test").info("inside")
    status = int(request.query_params.get("status", "200"))
    return PlainTextResponse(str(request_id.get()), status)


async def fail(request: Request) -> PlainTextResponse:
    raise ValueError("a bug")


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    with log_lines(path, LoggingSettings(format="json", level="DEBUG", file=path)) as lines:
        yield lines


@pytest.fixture
async def http():
    app = RequestLog(Starlette(routes=[Route("/id", say_id), Route("/fail", fail)]))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


async def test_the_id_of_the_caller_is_kept(http):
    answer = await http.get("/id", headers={"X-Request-ID": "abc-123"})
    assert answer.headers["x-request-id"] == "abc-123"
    assert answer.text == "abc-123"


async def test_a_request_without_an_id_gets_one_of_its_own(http):
    first, second = await http.get("/id"), await http.get("/id")
    assert first.headers["x-request-id"] == first.text
    assert first.text != second.text


@pytest.mark.parametrize("unfit", ["a b", "x" * 129, '"', "\x7f", ""])
async def test_an_id_that_does_not_belong_into_a_log_is_replaced(http, unfit):
    answer = await http.get("/id", headers={"X-Request-ID": unfit})
    assert answer.headers["x-request-id"] not in ("", unfit)


async def test_an_id_is_forgotten_after_its_request(http):
    await http.get("/id", headers={"X-Request-ID": "abc"})
    assert request_id.get() is None


async def test_lines_that_are_logged_meanwhile_carry_the_id(http, log):
    await http.get("/id", headers={"X-Request-ID": "abc"})
    assert [line["request_id"] for line in log() if line["message"] == "inside"] == ["abc"]


async def test_each_request_leaves_a_line(http, log):
    await http.get("/id?token=secret")
    (line,) = [line for line in log() if line["message"] == "request"]
    assert line.pop("duration_ms") >= 0
    assert line.pop("request_id")
    del line["timestamp"]
    assert line == {
        "level": "DEBUG",
        "logger": "gpu_scheduler.requests",
        "message": "request",
        "method": "GET",
        "path": "/id",
        "status": 200,
    }


@pytest.mark.parametrize(
    ("status", "level"), [(404, "DEBUG"), (503, "DEBUG"), (500, "WARNING"), (502, "WARNING")]
)
async def test_errors_of_the_service_are_warnings(http, log, status, level):
    await http.get(f"/id?status={status}")
    (line,) = [line for line in log() if line["message"] == "request"]
    assert line["level"] == level


async def test_the_answer_to_a_bug_has_the_id_too(http, log):
    answer = await http.get("/fail", headers={"X-Request-ID": "abc"})
    assert answer.status_code == 500
    assert answer.headers["x-request-id"] == "abc"
    (line,) = [line for line in log() if line["message"] == "request"]
    assert (line["level"], line["status"], line["request_id"]) == ("WARNING", 500, "abc")


async def test_what_is_neither_http_nor_websocket_passes_through():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    await RequestLog(app)({"type": "lifespan"}, None, None)  # type: ignore[arg-type]  # not used
    assert seen == ["lifespan"]
