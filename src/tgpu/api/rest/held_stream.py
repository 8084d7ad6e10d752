"""A stream over HTTP that counts for its caller while it lasts."""

from collections.abc import AsyncIterator

from starlette.requests import HTTPConnection
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from tgpu.api.streams import Streams
from tgpu.service.identity.caller import Principal


class HeldStream(StreamingResponse):
    """Counts for its caller from its beginning to its end, however it ends."""

    def __init__(
        self,
        lines: AsyncIterator[bytes],
        streams: Streams,
        caller: Principal,
        status_code: int = 200,  # FastAPI reads it here, for the OpenAPI document
    ) -> None:
        super().__init__(lines, status_code, headers={"Cache-Control": "no-store"})
        self._streams = streams
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.held(self._caller):
            await super().__call__(scope, receive, send)


def streams_of(connection: HTTPConnection) -> Streams:
    found: Streams = connection.app.state.streams
    return found
