"""How the reader of an answer that is cut short learns why."""

import json
from typing import Any

from starlette.types import Message, Send

from tgpu.api.errors import body

_CODE = "UNAUTHENTICATED"


class Unfinished:
    """Stands before `send` and remembers how far the answer has come."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: dict[str, Any] | None = None
        self._is_whole = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = dict(message)
        elif message["type"] == "http.response.body" and not message.get("more_body"):
            self._is_whole = True
        await self._send(message)

    async def tell(self, sentence: str) -> bool:
        """Whether the reader is told, or no longer needs to be; False: nothing was sent yet.

        Only a stream of events has a place for it. Of anything else the end is left out, so that
        nobody takes what has come for the whole.
        """
        if self._start is None:
            return False
        kinds = [value for name, value in self._start["headers"] if name == b"content-type"]
        if not self._is_whole and any(kind.startswith(b"text/event-stream") for kind in kinds):
            data = json.dumps(body(_CODE, sentence))
            told = f"event: error\ndata: {data}\n\n".encode()
            await self._send({"type": "http.response.body", "body": told, "more_body": False})
        return True
