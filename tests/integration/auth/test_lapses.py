"""Streams end when what let their readers in no longer does, with a sentence, over every door."""

import asyncio
import contextlib
import json
import time
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import websockets

from tests.integration.auth.door import OURS, Door, a_door, a_token, as_role, bearer
from tests.integration.auth.test_grpc_gate import a_port
from tests.integration.auth.test_streams import listening
from tgpu.api.auth import tokens
from tgpu.wire import scheduler_pb2 as pb

ADMIN = as_role("admin")
REVOKED = "this API key has been revoked"


async def a_key(door: Door, role: str = "user") -> Any:
    body = {"name": "short", "role": role, "tenants": None if role == "operator" else [OURS]}
    answer = await door.post("/api/v1/keys", json=body, headers=ADMIN)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def revoke(door: Door, key: Any) -> None:
    answer = await door.delete(f"/api/v1/keys/{key['id']}", headers=ADMIN)
    assert answer.status_code == 200, answer.text


async def closed(stream: Any) -> tuple[int, str]:
    """Code and reason, when it is."""
    async with asyncio.timeout(20):
        with contextlib.suppress(websockets.ConnectionClosedError):
            async for _ in stream:
                pass
    return stream.close_code, stream.close_reason


async def test_a_websocket_is_closed_when_its_key_is_revoked(tmp_path: Path) -> None:
    async with a_door() as door, listening(door, tmp_path / "s") as port:
        key = await a_key(door)
        url = f"ws://127.0.0.1:{port}/api/v1/events"
        async with websockets.connect(url, additional_headers=bearer(key["key"])) as stream:
            await revoke(door, key)
            assert await closed(stream) == (1008, REVOKED)


async def test_server_sent_events_end_when_their_key_is_revoked(tmp_path: Path) -> None:
    async with a_door() as door, listening(door, tmp_path / "s") as port:
        key = await a_key(door)
        base = f"http://127.0.0.1:{port}"
        async with (
            httpx.AsyncClient(base_url=base, headers=bearer(key["key"]), timeout=20) as client,
            client.stream("GET", "/api/v1/events") as answer,
        ):
            lines = answer.aiter_lines()
            assert await anext(lines) == ": connected"
            await revoke(door, key)
            *_, event, data, _ = [line async for line in lines]
        assert event == "event: error"
        error = json.loads(data.removeprefix("data: "))["error"]
        assert (error["code"], error["message"]) == ("UNAUTHENTICATED", REVOKED)


async def test_who_waits_is_answered_when_their_key_is_revoked() -> None:
    async with a_door() as door:
        await door.submit("held", OURS)
        await door.post("/api/v1/jobs/held/hold", headers=ADMIN)
        key = await a_key(door)
        waiting = asyncio.create_task(
            door.get("/api/v1/jobs/held/wait?timeout=30", headers=bearer(key["key"]))
        )
        async with asyncio.timeout(10):
            while not door.gate._calls._open:
                await asyncio.sleep(0.01)
            await revoke(door, key)
            answer = await waiting
        assert (answer.status_code, answer.json()["error"]["message"]) == (401, REVOKED)


async def test_a_stream_ends_with_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_LEEWAY_SECONDS", 0)
    async with a_door() as door, listening(door, tmp_path / "s") as port:
        token = a_token("viewer", [OURS], exp=time.time() + 2)
        url = f"ws://127.0.0.1:{port}/api/v1/events"
        async with websockets.connect(url, additional_headers=bearer(token)) as stream:
            assert await closed(stream) == (1008, "this token has expired; get a new one")


async def test_grpc_streams_end_when_their_key_is_revoked() -> None:
    async with a_port() as (door, stub):
        key = await a_key(door)
        metadata = (("authorization", f"Bearer {key['key']}"),)
        watching = stub.WatchEvents(pb.WatchEventsRequest(), metadata=metadata)
        await watching.initial_metadata()
        other = (("authorization", f"Bearer {(await a_key(door))['key']}"),)
        going_on = stub.WatchEvents(pb.WatchEventsRequest(), metadata=other)
        await going_on.initial_metadata()
        await revoke(door, key)
        async with asyncio.timeout(20):
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await watching.read()
        assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert ended.value.details() == REVOKED
        await door.submit("j", OURS)
        assert (await going_on.read()).job_id == "j"
        going_on.cancel()
