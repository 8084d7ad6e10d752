"""A small application behind a guarded server, over TCP and over a Unix socket."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tgpu.connections.budget import ConnectionBudget, ConnectionLimits
from tgpu.connections.server import GuardedServer

STREAM = "/stream"
REFUSED = "/refused"  # answered by its head alone
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """The number of bytes of the body."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        return
    length = 0
    while scope["path"] != REFUSED:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length += len(message["body"])
        if not message["more_body"]:
            break
    status = 413 if scope["path"] == REFUSED else 200
    content = b"x" * 50_000_000 if scope["path"] == "/large" else str(length).encode()
    headers = [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


@dataclass(frozen=True)
class Fixed(ConnectionLimits):
    """With budgets that do not depend on this process."""

    tcp: ConnectionBudget | None = None
    unix: ConnectionBudget | None = None

    def fitting(self) -> tuple[ConnectionBudget, ConnectionBudget]:
        return self.tcp or ConnectionBudget(100, 50), self.unix or ConnectionBudget(100, 50)


@dataclass
class Served:
    server: GuardedServer
    port: int
    path: Path
    callers: list["Caller"] = field(default_factory=list)

    async def connect(self) -> "Caller":
        return self._kept(await asyncio.open_connection("127.0.0.1", self.port))

    async def connect_unix(self) -> "Caller":
        return self._kept(await asyncio.open_unix_connection(self.path))

    def _kept(self, ends: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> "Caller":
        self.callers.append(Caller(*ends))
        return self.callers[-1]

    async def leave(self) -> None:
        for caller in self.callers:
            caller.writer.close()
            with suppress(ConnectionError):
                await caller.writer.wait_closed()


@dataclass
class Caller:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, text: bytes = GET) -> bytes:
        """What is answered to it, up to the end of the connection or of a short body."""
        self.writer.write(text)
        return await self.read()

    async def read(self) -> bytes:
        async with asyncio.timeout(20):
            return await self.reader.read(65_536)

    async def ended(self) -> bytes:
        async with asyncio.timeout(20):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


@asynccontextmanager
async def serving(directory: Path, limits: ConnectionLimits) -> AsyncIterator[Served]:
    over_tcp, over_unix = socket.socket(), socket.socket(socket.AF_UNIX)
    over_tcp.bind(("127.0.0.1", 0))
    path = directory / "s"
    over_unix.bind(str(path))
    server = GuardedServer(answer, limits, timeout_graceful_shutdown=1)
    serving = asyncio.create_task(server.serve([over_tcp, over_unix]))
    async with asyncio.timeout(10):
        while not server.started:
            await asyncio.sleep(0.01)
    served = Served(server, over_tcp.getsockname()[1], path)
    try:
        yield served
    finally:
        await served.leave()
        server.should_exit = server.force_exit = True
        await serving
