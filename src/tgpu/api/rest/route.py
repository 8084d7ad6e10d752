"""Decodes the body of a request once, after its size is checked.

A decoder makes objects for whatever it finds: two megabytes of brackets are 700,000 lists, and hold
everybody else up for most of a second. Counting the brackets takes a thousandth of that.
"""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from tgpu.api.translate.wording import of_bad_json

# Values and names of one body: more than all fields together may have, since the commas in texts
# count as well.
_MOST_VALUES: Final = 250_000
_LARGE: Final = 65_536  # bytes
_SHARE: Final = 4  # of the time, one part is for large bodies
_MOST_OBJECTS: Final = 20_000


class BadJson(ValueError):
    """What is wrong with a body that should be JSON."""


def decode_json(data: bytes) -> Any:
    """BadJson, or json.JSONDecodeError with the place. What it costs is bounded."""
    if data.count(b",") + data.count(b"[") > _MOST_VALUES:
        raise BadJson(f"it has more than {_MOST_VALUES} values; send it in parts")
    if data.count(b"{") > _MOST_OBJECTS:
        raise BadJson(f"it has more than {_MOST_OBJECTS} objects; send it in parts")
    try:
        return json.loads(data)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise BadJson(of_bad_json(str(error))) from None


class Turnstile:
    """Large bodies one after the other, with pauses: others are served in between, however many
    of them there are."""

    def __init__(self) -> None:
        self._next_at = 0.0

    async def decode(self, data: bytes) -> Any:
        # Without a lock: those who wait look again, and whoever is first goes first.
        while (wait := self._next_at - time.monotonic()) > 0:  # noqa: ASYNC110  # a time, no event
            await asyncio.sleep(wait)
        began = time.monotonic()
        try:
            return decode_json(data)
        finally:
            now = time.monotonic()
            self._next_at = now + (_SHARE - 1) * (now - began)


class BoundedRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            data = await self.body()
            turnstile: Turnstile = self.app.state.large_bodies
            self._json = await turnstile.decode(data) if len(data) > _LARGE else decode_json(data)
        return self._json


class BoundedRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def bounded(request: Request) -> Response:
            return await handle(BoundedRequest(request.scope, request.receive))

        return bounded


class Router(APIRouter):
    """Of routes whose bodies are read as above."""

    def __init__(self, *, prefix: str = "", tags: list[str] | None = None) -> None:
        super().__init__(prefix=prefix, tags=[*(tags or ())], route_class=BoundedRoute)
