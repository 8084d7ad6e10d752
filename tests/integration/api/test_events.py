"""Watching over WebSocket and server-sent events, against a real service."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import websockets

from tgpu.api.rest.app import make_app
from tgpu.app import make_service
from tgpu.devices.detect import detect
from tgpu.service.service import Service
from tgpu.settings import load_settings

LEASE = {"gpu_count": 1, "tenant_id": "t1"}


class Door:
    def __init__(self, service: Service, port: int) -> None:
        self.service = service
        self.port = port

    async def submit(self, **changes: Any) -> str:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}/api/v1") as client:
            answer = await client.post("/jobs", json={**LEASE, **changes})
            return str(answer.raise_for_status().json()["job_id"])

    def watch(self, query: str = "") -> Any:
        return websockets.connect(f"ws://127.0.0.1:{self.port}/api/v1/events{query}")


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    config = {
        "tenants": ({"tenant_id": "t1"}, {"tenant_id": "t2"}),
        "database.kind": "memory",
        "engine.kind": "none",
        "devices.monitor_interval_seconds": 0.2,
        "data_dir": str(tmp_path),
    }
    settings = load_settings(None, config, environ={})
    service = make_service(settings, tmp_path, detect("sim:2xA100"))
    await service.open()
    app = make_app(data_dir=None)
    app.state.service = service
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    )
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield Door(service, server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        await serving
        await service.close()


async def take(stream: Any, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(20):
        return [json.loads(await stream.recv()) for _ in range(count)]


async def test_a_job_is_told_from_its_submission_to_its_start(door: Door) -> None:
    async with door.watch("?readings=0") as stream:
        job_id = await door.submit()
        told = await take(stream, 3)
    assert [event["kind"] for event in told] == ["job_submitted", "job_scheduled", "job_started"]
    assert {event["job_id"] for event in told} == {job_id}
    assert [event["state"] for event in told] == ["pending", "scheduled", "running"]
    assert told[0]["seq"] < told[1]["seq"] < told[2]["seq"]


async def test_who_comes_back_with_a_number_misses_nothing_and_sees_nothing_twice(
    door: Door,
) -> None:
    async with door.watch("?readings=0") as stream:
        await door.submit()
        first = await take(stream, 2)
    await door.submit()
    async with door.watch(f"?readings=0&after={first[-1]['seq']}") as stream:
        rest = await take(stream, 4)
    async with door.watch("?readings=0&after=0") as stream:
        whole = [e for e in await take(stream, 9) if e["kind"].startswith("job_")]
    assert whole[: len(first) + len(rest)] == first + rest


async def test_a_filter_shows_only_one_tenants_jobs(door: Door) -> None:
    async with door.watch("?tenant_id=t2") as stream:
        await door.submit(tenant_id="t1")
        wanted = await door.submit(tenant_id="t2")
        told = await take(stream, 3)
    assert {event["job_id"] for event in told} == {wanted}


async def test_gpu_readings_are_told_as_they_come(door: Door) -> None:
    async with door.watch() as stream, asyncio.timeout(20):
        while True:
            event = json.loads(await stream.recv())
            if event["kind"] == "gpu_reading":
                break
    assert [gpu["index"] for gpu in event["data"]["gpus"]] == [0, 1]


async def test_a_number_from_the_future_is_refused_with_a_code(door: Door) -> None:
    async with door.watch("?after=999999") as stream:
        with pytest.raises(websockets.ConnectionClosedError) as closed:
            await take(stream, 1)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008
    assert "999999" in closed.value.rcvd.reason


async def sse(door: Door, count: int, headers: dict[str, str]) -> list[dict[str, str]]:
    """The first events of a stream, as their fields."""
    found: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    url = f"http://127.0.0.1:{door.port}/api/v1/events?readings=0"
    async with (
        asyncio.timeout(20),
        httpx.AsyncClient() as client,
        client.stream("GET", url, headers=headers) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            name, colon, value = line.partition(": ")
            if colon and name:
                fields[name] = value
            elif not line and fields:
                if "event" in fields:  # the stream begins with its position alone
                    found.append(fields)
                fields = {}
                if len(found) == count:
                    break
    return found


async def test_server_sent_events_tell_the_same_and_resume_by_their_id(door: Door) -> None:
    seq = door.service.feed.last_seq
    job_id = await door.submit()
    told = await sse(door, 3, {"Last-Event-ID": str(seq)})
    assert [event["event"] for event in told] == ["job_submitted", "job_scheduled", "job_started"]
    assert json.loads(told[0]["data"])["job_id"] == job_id
    rest = await sse(door, 1, {"Last-Event-ID": told[1]["id"]})
    assert rest == told[2:]


async def test_the_history_of_one_job_is_told_in_order(door: Door) -> None:
    job_id = await door.submit()
    await door.submit()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            while door.service.state.entry(job_id).progress.started_at is None:  # type: ignore[arg-type, union-attr]  # a str is a JobId here
                await asyncio.sleep(0.01)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{door.port}/api/v1") as client:
        await client.post(f"/jobs/{job_id}/complete")
        answer = (await client.get(f"/jobs/{job_id}/events")).json()
        page = (await client.get(f"/jobs/{job_id}/events?limit=2")).json()
    kinds = [event["kind"] for event in answer["events"]]
    assert kinds == ["job_submitted", "job_scheduled", "job_started", "job_completed"]
    assert answer["next_after"] is None
    assert page["next_after"] == page["events"][-1]["seq"]


async def test_when_a_waiting_job_starts_is_told_to_those_who_watch_it(door: Door) -> None:
    await door.submit(gpu_count=2, max_runtime=3600)
    waits = await door.submit(gpu_count=2)
    async with door.watch(f"?job_id={waits}") as stream:
        await door.submit(gpu_count=2, max_runtime=3600, priority=9000)
        (told,) = await take(stream, 1)
        if told["data"]["p50_seconds"] <= 3600:  # worked out before the other came
            (told,) = await take(stream, 1)
    assert (told["kind"], told["job_id"]) == ("job_estimated", waits)
    assert told["data"]["basis"] == "simulated"
    assert 7000 < told["data"]["p50_seconds"] <= 7200 < told["data"]["p90_seconds"]
