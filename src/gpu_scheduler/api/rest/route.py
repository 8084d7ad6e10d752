"""How the body of a request becomes values: bounded before it is decoded, and then once.

A decoder makes objects for whatever it finds: two megabytes of brackets are 700,000 lists, and hold
everybody else up for most of a second. Counting the brackets takes a thousandth of that.
"""

import json
from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from gpu_scheduler.api.rest.wording import of_bad_json

# Values and names of one body. A sweep has 100,000 values; the commas in texts count as well.
_MOST_VALUES: Final = 250_000
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


class BoundedRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = decode_json(await self.body())
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
