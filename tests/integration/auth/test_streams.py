"""Event streams and uploads through the gate, over real connections."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import websockets

from tests.integration.auth.door import OURS, THEIRS, Door, a_door, as_role
from tgpu.peers.protocol import PeerProtocol

PLAIN = {"tenant_id": OURS, "gpu_type": "A100", "gpus": 1, "priority": 1, "submitted_at": 0}


@asynccontextmanager
async def listening(door: Door, place: Path) -> AsyncIterator[int]:
    """The gate on a port and on a Unix socket at `place`."""
    tcp = socket.create_server(("127.0.0.1", 0))
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(str(place))
    config = uvicorn.Config(
        door.gate, http=PeerProtocol, proxy_headers=False, lifespan="off", log_config=None
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([tcp, unix]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield tcp.getsockname()[1]
    finally:
        server.force_exit = server.should_exit = True
        await serving


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with a_door() as door:
        yield door


async def first_job(stream: Any) -> str:
    async with asyncio.timeout(20):
        while True:
            event = json.loads(await stream.recv())
            if event["kind"] == "job_submitted":
                return str(event["job_id"])


async def test_a_watcher_sees_their_own_events_alone(door: Door, tmp_path: Path) -> None:
    async with listening(door, tmp_path / "s") as port:
        url = f"ws://127.0.0.1:{port}/api/v1/events"
        async with websockets.connect(url, additional_headers=as_role("viewer")) as stream:
            await door.submit("theirs-1", THEIRS)
            await door.submit("ours-1", OURS)
            assert await first_job(stream) == "ours-1"


@pytest.mark.parametrize("query", [f"?tenant_id={THEIRS}", "?job_id=theirs-1"])
async def test_asking_for_anothers_events_gives_none(
    door: Door, tmp_path: Path, query: str
) -> None:
    await door.submit("theirs-1", THEIRS)
    async with listening(door, tmp_path / "s") as port:
        url = f"ws://127.0.0.1:{port}/api/v1/events{query}&after=0"
        async with websockets.connect(url, additional_headers=as_role("user")) as stream:
            await door.submit("ours-1", OURS)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await stream.recv()


async def test_a_stranger_gets_no_stream(door: Door, tmp_path: Path) -> None:
    async with listening(door, tmp_path / "s") as port:
        for headers in ({}, {"Authorization": "Bearer guess"}, {"X-Forwarded-For": "unix"}):
            with pytest.raises(websockets.InvalidStatus) as refused:
                async with websockets.connect(
                    f"ws://127.0.0.1:{port}/api/v1/events", additional_headers=headers
                ):
                    pass
            assert refused.value.response.status_code == 403


async def test_the_owner_of_the_service_watches_over_the_socket_without_a_key(
    door: Door, tmp_path: Path
) -> None:
    async with listening(door, tmp_path / "s"):
        url = "ws://localhost/api/v1/events"
        async with websockets.unix_connect(str(tmp_path / "s"), url) as stream:
            await door.submit("theirs-1", THEIRS)
            assert await first_job(stream) == "theirs-1"


async def test_server_sent_events_are_narrowed_too(door: Door, tmp_path: Path) -> None:
    await door.submit("theirs-1", THEIRS)
    await door.submit("ours-1", OURS)
    async with listening(door, tmp_path / "s") as port, httpx.AsyncClient() as client:
        url = f"http://127.0.0.1:{port}/api/v1/events?after=0"
        async with (
            asyncio.timeout(20),
            client.stream("GET", url, headers=as_role("viewer")) as answer,
        ):
            async for line in answer.aiter_lines():
                if line.startswith("data:") and "job_submitted" in line:
                    break
    assert json.loads(line.removeprefix("data:"))["job_id"] == "ours-1"


# -- uploads ---------------------------------------------------------------------------------------


def lines(first: int, count: int) -> bytes:
    jobs = (PLAIN | {"job_id": f"j{number:06}"} for number in range(first, first + count))
    return b"".join(json.dumps(job).encode() + b"\n" for job in jobs)


async def test_a_file_is_queued_while_it_is_still_being_sent(door: Door, tmp_path: Path) -> None:
    seen: list[int] = []

    async def file() -> AsyncIterator[bytes]:
        yield lines(0, 6000)
        async with asyncio.timeout(20):
            while not door.box.service.state.pending_count():
                await asyncio.sleep(0.01)
        seen.append(door.box.service.state.pending_count())
        yield lines(6000, 10)

    async with listening(door, tmp_path / "s") as port, httpx.AsyncClient(timeout=30) as client:
        url = f"http://127.0.0.1:{port}/ingest?fmt=ndjson"
        answer = await client.post(url, content=file(), headers=as_role("user"))
    assert answer.json()["counts"] == {"accepted": 6010, "rejected": 0}
    assert seen == [5000]


async def test_a_file_that_breaks_off_in_the_middle_tells_what_was_queued(door: Door) -> None:
    data = lines(0, 5001) + b"\xff\xfe\n" + lines(9000, 5)
    answer = await door.post("/ingest?fmt=ndjson", content=data, headers=as_role("user"))
    assert answer.status_code == 400  # nothing of one piece was queued: all of it is refused
    assert door.box.service.state.pending_count() == 0

    async def file() -> AsyncIterator[bytes]:
        yield lines(0, 5001)
        yield b"\xff\xfe\n" + lines(9000, 5)

    answer = await door.post("/ingest?fmt=ndjson", content=file(), headers=as_role("user"))
    found = answer.json()
    assert found["counts"] == {"accepted": 5001, "rejected": 1}
    assert found["rejected"][0]["code"] == "BAD_ENCODING"
    assert "nothing from here on was read" in found["rejected"][0]["message"]
    assert door.box.service.state.pending_count() == 5001


async def test_a_form_that_is_sent_in_pieces_is_read_as_one(door: Door) -> None:
    boundary = "b0undary"
    form = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="j"\r\n\r\n'
    ).encode()
    form += lines(0, 50) + f"\r\n--{boundary}--\r\n".encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(form), 7):
            yield form[start : start + 7]

    headers = as_role("user") | {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    answer = await door.post("/ingest?fmt=ndjson", content=pieces(), headers=headers)
    assert answer.json()["counts"] == {"accepted": 50, "rejected": 0}


async def test_metrics_are_for_those_who_may_see_the_cluster(door: Door) -> None:
    assert (await door.get("/metrics")).status_code == 401
    assert (await door.get("/metrics", headers=as_role("user"))).status_code == 403
    # This app was made without metrics: an operator is let through, and finds nothing.
    assert (await door.get("/metrics", headers=as_role("operator"))).status_code == 404
