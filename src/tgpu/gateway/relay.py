"""Passes calls through to the service: bodies as streams, WebSockets message by message."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import httpx
import structlog
import websockets
from starlette.types import Receive, Send
from websockets.asyncio.client import ClientConnection

from tgpu.gateway.answer import Headers, not_there, send_whole
from tgpu.gateway.first import first_of
from tgpu.gateway.headers import Caller, has_body, header, to_caller, to_service
from tgpu.gateway.reads import target_of
from tgpu.gateway.upstream import Upstream, UpstreamAway

_log = structlog.get_logger("gpu_scheduler.gateway")

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSED_CODE, _AWAY_CODE = 1008, 1013
# Of the opening handshake, which is between us and the service alone.
_HANDSHAKE: Final = frozenset(
    {
        b"host",  # it is in the address
        b"sec-websocket-key",
        b"sec-websocket-version",
        b"sec-websocket-extensions",
        b"sec-websocket-protocol",
        b"content-length",
    }
)


class Relay:
    """`changed` is told of every call that changed something, before its caller is."""

    def __init__(self, upstream: Upstream, changed: Callable[[], Awaitable[None]]) -> None:
        self._upstream = upstream
        self._changed = changed

    # -- HTTP ----------------------------------------------------------------------------------

    async def http(
        self, scope: dict[str, Any], receive: Receive, send: Send, caller: Caller
    ) -> None:
        """Ends early where the caller goes away."""
        body = _Body(receive)
        if not has_body(scope):
            body.is_read.set()
        await first_of(self._pass(scope, body, send, caller), body.until_gone())

    async def _pass(self, scope: dict[str, Any], body: "_Body", send: Send, caller: Caller) -> None:
        method, target = scope["method"], target_of(scope)
        content = body.pieces() if has_body(scope) else None
        try:
            response = await self._upstream.open(method, target, to_service(scope, caller), content)
        except UpstreamAway:
            if method not in _READS:
                await self._changed()  # it may have been done all the same
            await send_whole(send, not_there(self._upstream.url))
            return
        try:
            # A refusal changes nothing.
            if method not in _READS and not 400 <= response.status_code < 500:
                await self._changed()
            await _send_on(response, send)
        finally:
            await response.aclose()

    # -- WebSocket -----------------------------------------------------------------------------

    async def websocket(
        self, scope: dict[str, Any], receive: Receive, send: Send, caller: Caller
    ) -> None:
        await receive()  # websocket.connect
        upstream = self._upstream
        # Under the name that the caller used, wherever we connect to.
        name = header(scope, b"host").decode("latin-1")
        path = (upstream.prefix + target_of(scope)).decode("latin-1")
        try:
            connection = await websockets.connect(
                f"{'ws' if upstream.tls is None else 'wss'}://{name}{path}",
                host=upstream.host,
                port=upstream.port,
                ssl=upstream.tls,
                server_hostname=None if upstream.tls is None else upstream.host,
                additional_headers=_handshake(to_service(scope, caller)),
                user_agent_header=None,
                compression=None,
                max_size=None,
                proxy=None,
            )
        except websockets.InvalidStatus as refused:
            code = _REFUSED_CODE if refused.response.status_code < 500 else _AWAY_CODE
            await send({"type": "websocket.close", "code": code, "reason": "refused"})
            return
        except (OSError, websockets.WebSocketException):
            reason = "the gateway cannot reach the scheduler"
            await send({"type": "websocket.close", "code": _AWAY_CODE, "reason": reason})
            return
        await send({"type": "websocket.accept", "headers": []})
        async with connection:
            with contextlib.suppress(websockets.ConnectionClosed):
                await first_of(_down(connection, send), _up(receive, connection))


class _Body:
    """A request's body as it comes. Whether the caller has gone is only known behind it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_read = asyncio.Event()
        self._gone = asyncio.Event()

    async def pieces(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone.set()
                raise UpstreamAway("the caller went away")
            more = message.get("more_body", False)
            if message.get("body"):
                yield message["body"]
        self.is_read.set()

    async def until_gone(self) -> None:
        await first_of(self._gone.wait(), self._until_disconnect())

    async def _until_disconnect(self) -> None:
        await self.is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _handshake(headers: Headers) -> list[tuple[str, str]]:
    return [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers
        if name not in _HANDSHAKE
    ]


async def _send_on(response: httpx.Response, send: Send) -> None:
    headers = to_caller(response.headers.raw)
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    try:
        async for piece in response.aiter_raw():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    except httpx.HTTPError as error:
        # Without an end: the server cuts the connection, and the caller sees that it is not whole.
        _log.warning("the scheduler stopped in the middle of an answer", problem=str(error))
        return
    await send({"type": "http.response.body", "body": b""})


async def _down(connection: ClientConnection, send: Send) -> None:
    try:
        async for message in connection:
            kind = "text" if isinstance(message, str) else "bytes"
            await send({"type": "websocket.send", kind: message})
    except websockets.ConnectionClosed:
        pass
    code = connection.close_code or 1006
    # 1005 and 1006 say that no code was sent, and may not be sent themselves.
    code = 1011 if code in (1005, 1006) else code
    await send({"type": "websocket.close", "code": code, "reason": connection.close_reason or ""})


async def _up(receive: Receive, connection: ClientConnection) -> None:
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            await connection.close(1000)
            return
        text = message.get("text")
        await connection.send(message["bytes"] if text is None else text)
