"""HTTP connections with timeouts for heads, bodies and answers that make no progress.

uvicorn's own protocol waits for ever for the rest of a request, and keeps whatever it was sent.
"""

import asyncio
from http import HTTPStatus
from typing import Any, Final

from tgpu.connections.budget import ConnectionLimits
from tgpu.connections.refusal import refusal
from tgpu.peers.protocol import PeerProtocol

_LARGEST_HEAD: Final = 65_536  # bytes, as far as they come in one piece
_LONGEST_URL: Final = 16_384
_MOST_HEADERS: Final = 128
_MOST_PIPELINED: Final = 32
# A body comes at this rate at least, looked at over so many seconds: a modem's tenth.
_BYTES_PER_SECOND: Final = 512
_WINDOW_SECONDS: Final = 10.0
# Chunks of a body that may be as small as one byte; more must have so many bytes on average.
_SMALL_CHUNKS: Final = 4_096
_BYTES_OF_A_CHUNK: Final = 64
# What still comes of a body after it was answered, which is thrown away bit by bit: as fast as it
# can be sent it would take all of the loop's time.
_MOST_PASSED_OVER: Final = 16 * 1024 * 1024
_PASS_SECONDS: Final = 0.02
# An answer of which nothing is taken for so long is for nobody. Event streams are ended sooner.
_WRITE_SECONDS: Final = 60.0


class GuardedProtocol(PeerProtocol):
    """`limits` is set by the server that makes these; it calls `look` now and then."""

    limits: ConnectionLimits = ConnectionLimits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_since: float | None = None
        self._head_bytes = 0
        self._body_since: float | None = None
        self._body_bytes = 0
        self._chunks = 0
        self._passed_over = 0
        self._window: tuple[float, int] = (0.0, 0)  # when it began, and the bytes there were
        self._unwritable_since: float | None = None
        self._refused: tuple[HTTPStatus, str, str] | None = None

    # -- what comes ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._head_since = self.loop.time()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._head_since is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_since is not None and self._head_bytes > _LARGEST_HEAD:
            self._end(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "TOO_LARGE", _HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        self._head_since = self._head_since or self.loop.time()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > _LONGEST_URL:
            self._refuse(HTTPStatus.REQUEST_URI_TOO_LONG, "TOO_LARGE", _URL_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > _MOST_HEADERS:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "TOO_LARGE", _TOO_MANY_HEADERS)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _MOST_PIPELINED:
            self._refuse(HTTPStatus.TOO_MANY_REQUESTS, "RATE_LIMITED", _TOO_MANY_AT_ONCE)
        self._head_since, self._head_bytes = None, 0
        now = self.loop.time()
        self._body_since, self._body_bytes, self._chunks = now, 0, 0
        self._passed_over = 0
        self._window = (now, 0)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._chunks += 1
        if self._chunks > _SMALL_CHUNKS and self._body_bytes < self._chunks * _BYTES_OF_A_CHUNK:
            self._refuse(HTTPStatus.BAD_REQUEST, "BAD_REQUEST", _SMALL_PIECES)
        if self.cycle is not None and self.cycle.response_complete:
            self._pass_over(len(body))
        super().on_body(body)

    def _pass_over(self, count: int) -> None:
        """Of a body that was refused already: some of it, so that its sender reads the answer."""
        self._passed_over += count
        if self._passed_over > _MOST_PASSED_OVER:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.flow.pause_reading()
            self.loop.call_later(_PASS_SECONDS, self._go_on)

    def _go_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def on_message_complete(self) -> None:
        self._body_since = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        self._unwritable_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unwritable_since = None
        super().resume_writing()

    # -- what does not come --------------------------------------------------------------------

    def look(self, now: float) -> None:
        """End the connection if it has been waited for long enough."""
        limits = self.limits
        if self.transport is None or self.transport.is_closing():
            return
        if self._unwritable_since is not None and now - self._unwritable_since > _WRITE_SECONDS:
            self.transport.abort()
        elif self._head_since is not None and now - self._head_since > limits.head_seconds:
            self._end(
                HTTPStatus.REQUEST_TIMEOUT,
                "TIMED_OUT",
                f"the head of the request did not arrive within {limits.head_seconds:g} s",
            )
        elif self._body_since is not None:
            self._look_at_body(now, self._body_since)

    def _look_at_body(self, now: float, since: float) -> None:
        begun, before = self._window
        if self.flow.read_paused:
            self._window = (now, self._body_bytes)  # it is we who do not take it
        elif now - begun >= _WINDOW_SECONDS:
            if self._body_bytes - before < _BYTES_PER_SECOND * _WINDOW_SECONDS:
                self._end(HTTPStatus.REQUEST_TIMEOUT, "TIMED_OUT", _TOO_SLOW)
                return
            self._window = (now, self._body_bytes)
        path = self.scope.get("path") if self.scope else None
        if now - since > self.limits.body_seconds and path not in self.limits.streams:
            message = f"the body did not arrive within {self.limits.body_seconds:g} s"
            self._end(HTTPStatus.REQUEST_TIMEOUT, "TIMED_OUT", message)

    # -- how it ends ---------------------------------------------------------------------------

    def _refuse(self, status: HTTPStatus, code: str, message: str) -> None:
        """From within the parser, which hands it on as an error of its own."""
        self._refused = (status, code, message)
        raise ValueError(message)

    def send_400_response(self, msg: str) -> None:
        self._end(*(self._refused or (HTTPStatus.BAD_REQUEST, "BAD_REQUEST", _NO_HTTP)))

    def _end(self, status: HTTPStatus, code: str, message: str) -> None:
        """With an answer, where none has begun: between two halves of one it would be nonsense."""
        if self.transport.is_closing():
            return
        in_an_answer = self.cycle is not None and (
            self.cycle.response_started and not self.cycle.response_complete
        )
        if in_an_answer or self.pipeline:
            self.transport.abort()
            return
        self.transport.write(refusal(status, code, message))
        self.transport.close()


_HEAD_TOO_LARGE: Final = f"the head of the request has more than {_LARGEST_HEAD} bytes"
_URL_TOO_LONG: Final = f"the address has more than {_LONGEST_URL} bytes"
_TOO_MANY_HEADERS: Final = f"the request has more than {_MOST_HEADERS} headers"
_TOO_MANY_AT_ONCE: Final = f"more than {_MOST_PIPELINED} requests were sent without waiting"
_SMALL_PIECES: Final = "the body arrives in pieces of a few bytes; send larger ones"
_TOO_SLOW: Final = f"the body arrives at less than {_BYTES_PER_SECOND} bytes a second"
_NO_HTTP: Final = "this is not a valid HTTP request"
