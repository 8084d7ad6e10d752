"""Pieces of logs: offsets, attempts, waiting, and where there is none."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.api.http import Api, an_api, error_of
from tgpu.core.model.lifecycle import JobState
from tgpu.engines.api import AttemptKey
from tgpu.engines.fake import FakeEngine

TEXT = b"line one\nline two\n\xff\x00 not UTF-8\n"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(engine=FakeEngine(logs=str(tmp_path))) as made:
        yield made


def write(api: Api, key: AttemptKey, data: bytes, stream: str = "stdout") -> None:
    """What the job would have written so far."""
    directory = Path(api.box.engine.log_dir(key) or "")
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"{stream}.log").open("ab") as log:
        log.write(data)


async def a_running_job(api: Api, **fields: Any) -> AttemptKey:
    answer = await api.post("/api/v1/jobs", json={"command": ["t"], **fields})
    return await api.box.run(answer.json()["job_id"])


async def read(api: Api, key: AttemptKey, **params: Any) -> httpx.Response:
    answer = await api.get(f"/api/v1/jobs/{key.job_id}/logs", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    return answer


def facts(answer: httpx.Response) -> tuple[str, str, str]:
    names = ("x-log-offset", "x-log-size", "x-log-complete")
    offset, size, complete = (answer.headers[name] for name in names)
    return offset, size, complete


async def test_a_log_is_given_as_it_was_written(api: Api) -> None:
    key = await a_running_job(api)
    write(api, key, TEXT)
    write(api, key, b"oops\n", "stderr")
    answer = await read(api, key)
    assert (answer.content, facts(answer)) == (TEXT, ("0", str(len(TEXT)), "false"))
    assert (await read(api, key, stream="stderr")).content == b"oops\n"


@pytest.mark.parametrize(
    ("offset", "limit", "piece", "start"),
    [
        (0, 4, b"line", 0),
        (5, 3, b"one", 5),
        (-5, 100, TEXT[-5:], len(TEXT) - 5),
        (-10_000, 4, b"line", 0),
        (len(TEXT), 100, b"", len(TEXT)),
        (10_000, 100, b"", len(TEXT)),
        (2**53, 100, b"", len(TEXT)),
        (-(2**53), 4, b"line", 0),
    ],
)
async def test_offsets_count_from_the_start_or_the_end(
    api: Api, offset: int, limit: int, piece: bytes, start: int
) -> None:
    key = await a_running_job(api)
    write(api, key, TEXT)
    answer = await read(api, key, offset=offset, limit=limit)
    assert answer.content == piece
    assert answer.headers["x-log-offset"] == str(start)


async def test_pieces_in_a_row_are_the_whole_log(api: Api) -> None:
    key = await a_running_job(api)
    write(api, key, TEXT)
    api.box.engine.finish(key)
    await api.box.until(key.job_id, JobState.COMPLETED)
    found, complete = b"", "false"
    while complete == "false":
        answer = await read(api, key, offset=len(found), limit=7)
        found += answer.content
        complete = answer.headers["x-log-complete"]
    assert found == TEXT


async def test_a_log_is_complete_when_the_attempt_is_over_and_all_of_it_was_given(
    api: Api,
) -> None:
    key = await a_running_job(api)
    write(api, key, TEXT)
    assert facts(await read(api, key))[2] == "false"
    api.box.engine.finish(key)
    await api.box.until(key.job_id, JobState.COMPLETED)
    assert facts(await read(api, key, limit=4))[2] == "false"
    assert facts(await read(api, key))[2] == "true"


async def test_waiting_returns_at_once_when_there_is_something(api: Api) -> None:
    key = await a_running_job(api)
    write(api, key, b"x")
    began = time.monotonic()
    assert (await read(api, key, wait=20)).content == b"x"
    assert time.monotonic() - began < 2


async def test_waiting_ends_with_news(api: Api) -> None:
    key = await a_running_job(api)
    write(api, key, b"x")
    waiting = asyncio.create_task(read(api, key, offset=1, wait=20))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    write(api, key, b"news")
    assert (await asyncio.wait_for(waiting, 5)).content == b"news"


async def test_waiting_ends_with_the_job(api: Api) -> None:
    key = await a_running_job(api)
    waiting = asyncio.create_task(read(api, key, wait=20))
    await asyncio.sleep(0.02)
    api.box.engine.finish(key)
    answer = await asyncio.wait_for(waiting, 5)
    assert (answer.content, facts(answer)) == (b"", ("0", "0", "true"))


async def test_waiting_ends_with_its_time(api: Api) -> None:
    key = await a_running_job(api)
    answer = await read(api, key, wait=0.05)
    assert (answer.content, answer.headers["x-log-complete"]) == (b"", "false")


async def test_each_attempt_has_its_own_log(api: Api) -> None:
    first = await a_running_job(api, max_retries=1, backoff_seconds=0)
    write(api, first, b"first try")
    api.box.engine.finish(first, 1)
    await api.box.until(first.job_id, JobState.PENDING)
    second = await api.box.run(first.job_id, 1)
    write(api, second, b"second try")
    assert (await read(api, second)).content == b"second try"
    older = await read(api, first, attempt=1)
    assert (older.content, older.headers["x-log-complete"]) == (b"first try", "true")
    answer = await api.get(f"/api/v1/jobs/{first.job_id}/logs?attempt=3")
    error_of(answer, 404, "NO_LOG")


async def test_there_is_no_log_before_the_start_nor_of_a_lease(api: Api) -> None:
    bodies: list[dict[str, Any]] = [{"command": ["t"], "hold": True}, {"command": []}]
    for body in bodies:
        job_id = (await api.post("/api/v1/jobs", json=body)).json()["job_id"]
        error_of(await api.get(f"/api/v1/jobs/{job_id}/logs"), 404, "NO_LOG")


@pytest.mark.parametrize(
    "query",
    [
        "stream=stdin",
        "offset=x",
        "offset=99999999999999999999",
        "limit=0",
        "wait=-1",
        "wait=nan",
        "attempt=0",
        "wait=1e400",
    ],
)
async def test_parameters_that_cannot_be_are_refused(api: Api, query: str) -> None:
    key = await a_running_job(api)
    answer = await api.get(f"/api/v1/jobs/{key.job_id}/logs?{query}")
    error = error_of(answer, 422, "VALIDATION_ERROR")
    assert error["message"].startswith(query.partition("=")[0])
