"""Answers scrapes: as one route of the HTTP API, and as an application for a port of its own.

Both on the service's event loop, where the state stands still while it is read. A service that
hangs therefore answers no scrape, which is what Prometheus alerts on first.
"""

from prometheus_client import make_asgi_app
from prometheus_client.registry import CollectorRegistry
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/metrics"


class Exposition:
    """All metrics, in the format that the scraper asks for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._answer: ASGIApp = make_asgi_app(registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)

    def route(self) -> Route:
        """For an application that serves other things too. Not a part of its OpenAPI."""
        return Route(PATH, self, methods=["GET"], include_in_schema=False)


class MetricsPort:
    """The application of the metrics port: it has nothing else."""

    def __init__(self, exposition: Exposition) -> None:
        self._exposition = exposition

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # a WebSocket is refused by saying nothing
        answer: ASGIApp = self._exposition
        if scope["path"] != PATH:
            answer = PlainTextResponse(f"metrics are at {PATH}\n", 404)
        elif scope["method"] not in ("GET", "HEAD"):
            answer = PlainTextResponse(f"{PATH} is for GET\n", 405, {"Allow": "GET"})
        await answer(scope, receive, send)
