"""This gateway's own subscription to the service's events, as server-sent events."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import httpx

from tgpu.gateway.answer import Headers
from tgpu.gateway.headers import CALLER
from tgpu.gateway.limits import identity_in
from tgpu.gateway.ring import Event
from tgpu.gateway.upstream import Upstream, UpstreamAway

# The service gives a sign of life every 15 seconds; after three that did not come it is gone.
_SILENCE_SECONDS: Final = 45.0
_READING: Final = "gpu_reading"


class Gone(Exception):
    """The service's journal no longer, or not yet, has what we want to go on from."""


class NotForUs(Exception):
    """The service does not show this gateway the events of all tenants."""


@dataclass(slots=True)
class Batch:
    """What came at once."""

    position: int | None = None  # where the subscription begins, once
    events: list[Event] = field(default_factory=list)
    readings: list[bytes] = field(default_factory=list)


class EventSource:
    """`api_key` is what the gateway shows for itself, where the service asks."""

    def __init__(self, upstream: Upstream, api_key: str | None) -> None:
        self._upstream = upstream
        self._headers: Headers = [
            (CALLER, b"0") if api_key is None else (b"authorization", f"Bearer {api_key}".encode())
        ]

    async def follow(self, after: int | None) -> AsyncIterator[Batch]:
        """Every event behind `after` (None: from now on). Raises UpstreamAway when it ends."""
        await self._check_allowed()
        query = b"" if after is None else b"?after=%d" % after
        response = await self._upstream.open(
            "GET", b"/api/v1/events" + query, self._headers, read_seconds=_SILENCE_SECONDS
        )
        try:
            if response.status_code == 410:
                raise Gone
            if response.status_code != 200:
                raise UpstreamAway(f"events: HTTP {response.status_code}")
            reader = SseReader()
            async for piece in response.aiter_raw():
                yield reader.take(piece)
        except httpx.HTTPError as error:
            raise UpstreamAway(str(error)) from error
        finally:
            await response.aclose()
        raise UpstreamAway("the service ended the stream of events")

    async def _check_allowed(self) -> None:
        answer = await self._upstream.fetch(b"/api/v1/whoami", self._headers)
        if answer.status >= 500:
            raise UpstreamAway(f"whoami: HTTP {answer.status}")
        identity = identity_in(answer)
        if identity is None or not identity.sees_all:
            raise NotForUs


class SseReader:
    """Puts the pieces of a stream together: events, readings, and where it began."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, piece: bytes) -> Batch:
        *blocks, self._rest = (self._rest + piece).split(b"\n\n")
        batch = Batch()
        for block in blocks:
            self._take_block(block, batch)
        return batch

    def _take_block(self, block: bytes, batch: Batch) -> None:
        fields: dict[bytes, bytes] = {}
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            fields[name] = value.removeprefix(b" ")
        data, kind = fields.get(b"data"), fields.get(b"event", b"").decode()
        if data is None:
            if b"id" in fields:
                batch.position = int(fields[b"id"])
        elif kind == "error":
            raise _error(data)
        elif kind == _READING:
            batch.readings.append(data)
        elif b"id" in fields:
            batch.events.append(Event(int(fields[b"id"]), kind, data))


def _error(data: bytes) -> Exception:
    try:
        code = json.loads(data)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        code = ""
    return Gone() if code == "EVENTS_GONE" else UpstreamAway(f"events: {code}")
