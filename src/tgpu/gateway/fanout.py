"""Gives watchers the events of the ring, over WebSocket and as server-sent events.

The wording on the wire is the service's own: watchers cannot tell whom they are connected to.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.types import Receive, Send

from tgpu.gateway.first import first_of
from tgpu.gateway.headers import header
from tgpu.gateway.ring import Event, Over, Ring, RingReader, TooSlow

_HEARTBEAT_SECONDS: Final = 15.0
# A reader that takes nothing for this long is gone, or might as well be.
_STALL_SECONDS: Final = 30.0
# RFC 6455 and its registry: "try again later", "service restart", "going away".
_SLOW_CODE, _AGAIN_CODE, _ENDING_CODE = 1013, 1012, 1001

_LAPSED_CODE: Final = 1008  # "policy violation", as the service closes such streams

Tell = Callable[[list[Event], bytes], Awaitable[None]]
Lapse = Callable[[], Coroutine[Any, Any, None]]  # raises Lapsed when the watcher must go


class Lapsed(Exception):
    """The service no longer lets this watcher in as one who sees everything."""

    def __init__(self) -> None:
        super().__init__("your key or token is no longer valid: connect again for details")


def reader_for(scope: dict[str, Any], ring: Ring) -> RingReader | None:
    """None where the ring cannot serve it: too far back, filtered, or wrong; the service can."""
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    if not ring.is_open or query.keys() - {"after", "readings"}:
        return None
    asked = query.get("after") or header(scope, b"last-event-id").decode("latin-1")
    if not asked:
        after = ring.last
    elif asked.isascii() and asked.isdigit() and len(asked) <= 16:
        after = int(asked)
    else:
        return None
    if not ring.covers(after):
        return None
    return RingReader(ring, after, readings=query.get("readings") not in ("0", "false"))


async def serve_sse(
    reader: RingReader, receive: Receive, send: Send, ending: asyncio.Event, lapse: Lapse
) -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
    headers += [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(data: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(_STALL_SECONDS):
            await send({"type": "http.response.body", "body": data, "more_body": more})

    async def tell(events: list[Event], reading: bytes) -> None:
        text = b"".join([event.as_sse() for event in events])
        if reading:
            text += b"event: gpu_reading\ndata: %b\n\n" % reading
        await write(text or b": alive\n\n")

    rest = b""
    try:
        await write(b": connected\nid: %d\n\n" % reader.position)
        gone = _until_gone(receive, "http.disconnect")
        await first_of(_tell(reader, tell), gone, ending.wait(), lapse())
    except TooSlow as slow:
        rest = b"event: error\ndata: %b\n\n" % _too_slow(slow)
    except Lapsed as lapsed:
        rest = b"event: error\ndata: %b\n\n" % _error("UNAUTHENTICATED", str(lapsed))
    except (Over, TimeoutError):
        pass  # it comes back by itself, with the last id it was given
    with contextlib.suppress(TimeoutError):
        await write(rest, more=False)


async def serve_websocket(
    reader: RingReader, receive: Receive, send: Send, ending: asyncio.Event, lapse: Lapse
) -> None:
    await receive()  # websocket.connect
    await send({"type": "websocket.accept", "headers": []})

    async def tell(events: list[Event], reading: bytes) -> None:
        async with asyncio.timeout(_STALL_SECONDS):
            for event in events:
                await send({"type": "websocket.send", "text": event.data.decode()})
            if reading:
                await send({"type": "websocket.send", "text": reading.decode()})

    code, reason = _ENDING_CODE, "the gateway is stopping"
    try:
        gone = _until_gone(receive, "websocket.disconnect")
        await first_of(_tell(reader, tell), gone, ending.wait(), lapse())
    except TooSlow as slow:
        code, reason = _SLOW_CODE, str(slow)
    except Lapsed as lapsed:
        code, reason = _LAPSED_CODE, str(lapsed)
    except Over as over:
        code, reason = _AGAIN_CODE, str(over)
    except TimeoutError:
        code, reason = _SLOW_CODE, str(TooSlow(reader.position))
    with contextlib.suppress(RuntimeError, OSError):
        await send({"type": "websocket.close", "code": code, "reason": reason[:120]})


async def _tell(reader: RingReader, tell: Tell) -> None:
    while True:
        events: list[Event] = []
        reading = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HEARTBEAT_SECONDS):
                events, reading = await reader.next()
        await tell(events, reading)
        reader.taken(events)


async def _until_gone(receive: Receive, goodbye: str) -> None:
    while (await receive())["type"] != goodbye:
        pass  # watchers say nothing else to us


def _too_slow(slow: TooSlow) -> bytes:
    return _error("SLOW_READER", str(slow), {"after": slow.position})


def _error(code: str, message: str, *details: dict[str, object]) -> bytes:
    return json.dumps(
        {"error": {"code": code, "message": message, "details": list(details)}}
    ).encode()
