"""Connections that are held, half-sent or too many, over real sockets."""

import asyncio
import errno
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.unit.connections.serving import GET, REFUSED, STREAM, Fixed, serving
from tgpu.connections import protocol
from tgpu.connections.acceptor import Acceptor
from tgpu.connections.budget import ConnectionBudget

QUICK = Fixed(head_seconds=0.3, body_seconds=0.5, streams=frozenset({STREAM}))


async def test_a_request_is_served_over_both_sockets(tmp_path: Path) -> None:
    async with serving(tmp_path, Fixed()) as served:
        for caller in (await served.connect(), await served.connect_unix()):
            assert (await caller.ask()).startswith(b"HTTP/1.1 200 OK")
            assert (await caller.ask()).startswith(b"HTTP/1.1 200 OK")  # the same connection


@pytest.mark.parametrize("sent", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: x\r\nA: b"])
async def test_a_head_that_does_not_come_is_answered_with_408(tmp_path: Path, sent: bytes) -> None:
    async with serving(tmp_path, QUICK) as served:
        caller = await served.connect()
        caller.writer.write(sent)
        told = await caller.ended()
        assert told.startswith(b"HTTP/1.1 408 ")
        assert b"the head of the request did not arrive within 0.3 s" in told


async def test_a_body_that_does_not_come_is_answered_with_408(tmp_path: Path) -> None:
    async with serving(tmp_path, QUICK) as served:
        caller = await served.connect()
        caller.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
        told = await caller.ended()
        assert told.startswith(b"HTTP/1.1 408 ")
        assert b"the body did not arrive within 0.5 s" in told


async def test_a_stream_may_take_its_time_as_long_as_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_WINDOW_SECONDS", 0.5)
    head = f"POST {STREAM} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n".encode()
    async with serving(tmp_path, QUICK) as served:
        caller, idle = await served.connect(), await served.connect()
        caller.writer.write(head)
        idle.writer.write(head)
        told = asyncio.create_task(idle.ended())
        for _ in range(100):  # until the other was found to stand still, which takes a window
            caller.writer.write(b"x" * 1000)
            await asyncio.wait([told], timeout=0.05)
        assert b"at less than 512 bytes a second" in await told
        assert (await caller.read()).endswith(b"100000")


async def test_those_who_hold_connections_keep_nobody_from_the_unix_socket(tmp_path: Path) -> None:
    async with serving(
        tmp_path, Fixed(tcp=ConnectionBudget(4, 4), unix=ConnectionBudget(4, 4))
    ) as served:
        held = [await served.connect() for _ in range(4)]
        for caller in held:
            caller.writer.write(b"GET / HT")
        refused = await (await served.connect()).ended()
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"has 4 connections open" in refused
        local = await served.connect_unix()
        assert (await local.ask()).startswith(b"HTTP/1.1 200 OK")
        held[0].writer.close()
        await held[0].writer.wait_closed()
        async with asyncio.timeout(10):
            while not (await (await served.connect()).ask()).startswith(b"HTTP/1.1 200 OK"):
                await asyncio.sleep(0.01)


async def test_a_full_house_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path, Fixed(tcp=ConnectionBudget(1, 9))) as served:
        first = await served.connect()
        assert (await first.ask()).startswith(b"HTTP/1.1 200 OK")
        refused = await (await served.connect()).ended()
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"all 1 connections are in use (limits.connections)" in refused


async def test_a_websocket_gives_its_place_back(tmp_path: Path) -> None:
    budget = ConnectionBudget(1, 1)
    upgrade = (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    async with serving(tmp_path, Fixed(tcp=budget)) as served:
        watcher = await served.connect()
        assert (await watcher.ask(upgrade)).startswith(b"HTTP/1.1 101 ")
        assert budget.taken == 1
        watcher.writer.close()
        async with asyncio.timeout(10):
            while budget.taken:
                await asyncio.sleep(0.01)
        assert (await (await served.connect()).ask()).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        (b"nonsense\r\n\r\n", 400, b"not a valid HTTP request"),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", 414, b"more than 16384 bytes"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 129 + b"\r\n", 431, b"more than 128 headers"),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * 70_000, 431, b"more than 65536 bytes"),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 5_000,
            400,
            b"pieces of a few bytes",
        ),
    ],
    ids=["nonsense", "address", "headers", "a long header", "small chunks"],
)
async def test_what_is_too_much_is_refused(
    tmp_path: Path, sent: bytes, status: int, message: bytes
) -> None:
    async with serving(tmp_path, Fixed()) as served:
        caller = await served.connect()
        told = await caller.ask(sent)
        assert told.startswith(f"HTTP/1.1 {status} ".encode())
        assert b"Content-Type: application/json" in told
        assert message in told


async def test_requests_without_waiting_are_bounded(tmp_path: Path) -> None:
    async with serving(tmp_path, Fixed()) as served:
        few = await served.connect()
        few.writer.write(GET * 20)
        async with asyncio.timeout(10):
            told = b""
            while told.count(b"HTTP/1.1 200 OK") < 20:
                told += await few.read()
        many = await served.connect()
        many.writer.write(GET * 5_000)
        assert (await many.ended()).count(b"HTTP/1.1 200 OK") < 5_000


async def test_an_answer_that_nobody_takes_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_WRITE_SECONDS", 0.2)
    budget = ConnectionBudget(9, 9)
    async with serving(tmp_path, Fixed(tcp=budget)) as served:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        with connection:
            loop = asyncio.get_running_loop()
            await loop.sock_connect(connection, ("127.0.0.1", served.port))
            await loop.sock_sendall(connection, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(10):
                while not budget.taken:
                    await asyncio.sleep(0.01)
                while budget.taken:
                    await asyncio.sleep(0.01)


class _Short:
    """A listening socket whose accept has no descriptors left, a few times."""

    def __init__(self, listening: socket.socket, times: int) -> None:
        self._listening = listening
        self.times = times

    def _accept(self) -> Any:
        if self.times:
            self.times -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listening._accept()  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listening, name)


async def test_a_want_of_descriptors_is_waited_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[_Short] = []
    begin = Acceptor.__init__

    def short(self: Acceptor, listening: socket.socket, *arguments: Any, **named: Any) -> None:
        made.append(_Short(listening, 3))
        begin(self, made[-1], *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Acceptor, "__init__", short)
    async with serving(tmp_path, Fixed()) as served:
        assert (await (await served.connect()).ask()).startswith(b"HTTP/1.1 200 OK")
        assert made[0].times == 0


async def test_a_body_that_was_refused_is_not_taken_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_MOST_PASSED_OVER", 200_000)
    head = f"POST {REFUSED} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n".encode()
    async with serving(tmp_path, Fixed()) as served:
        caller = await served.connect()
        assert (await caller.ask(head)).startswith(b"HTTP/1.1 413 ")
        async with asyncio.timeout(20):
            with suppress(ConnectionError):
                while not caller.writer.transport.is_closing():
                    caller.writer.write(b"x" * 10_000)
                    await caller.writer.drain()
                    await asyncio.sleep(0)
        assert await caller.ended() == b""
