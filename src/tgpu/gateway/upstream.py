"""The HTTP connection from the gateway to the service; bytes pass unchanged."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import httpx

from tgpu.gateway.answer import Answer, Headers
from tgpu.gateway.headers import to_caller

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 30.0
# At most this many ordinary calls at once: more would only wait inside the service.
_CALLS: Final = 200
_IDLE: Final = 50  # connections that are kept for the next calls
# Less than the five seconds after which the service closes an idle connection, so that none is
# used that is just being closed.
_KEEP_SECONDS: Final = 3.0
# Calls that may last as long as they like are not counted, so that any number of them leaves
# ordinary calls alone.
_PATIENT: Final = (b"/wait", b"/logs", b"/events")


class UpstreamAway(Exception):
    """The service could not be asked, or stopped answering."""


class Upstream:
    """`url` is http:// or https://, with a path before all paths where there is one."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        self.prefix = parts.path.encode()
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._base = httpx.URL(self.url)
        # One connection each: a pool looks at all its connections for every call, and with many
        # of them that took longer than the call.
        self._lines: list[httpx.AsyncHTTPTransport] = []
        self._calls = asyncio.Semaphore(_CALLS)

    async def open(
        self,
        method: str,
        target: bytes,
        headers: Headers,
        body: AsyncIterator[bytes] | None = None,
        read_seconds: float | None = None,
    ) -> httpx.Response:
        """An answer whose body is still to be read, and which must be closed. UpstreamAway."""
        request = httpx.Request(
            method,
            self._base.copy_with(raw_path=self.prefix + target),
            headers=headers,
            content=body,
            extensions={
                "timeout": {
                    "connect": _CONNECT_SECONDS,
                    "pool": _ANSWER_SECONDS,
                    "read": read_seconds,
                    "write": read_seconds,
                }
            },
        )
        is_patient = target.partition(b"?")[0].endswith(_PATIENT)
        if not is_patient:
            await self._calls.acquire()
        line = self._lines.pop() if self._lines else self._new_line()
        try:
            response = await line.handle_async_request(request)
        except BaseException as error:
            await self._hang_up(line, is_patient, keep=False)
            if isinstance(error, httpx.HTTPError | OSError):
                raise UpstreamAway(str(error) or type(error).__name__) from error
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Heard(
            response.stream, partial(self._hang_up, line, is_patient, keep=True)
        )
        return response

    def _new_line(self) -> httpx.AsyncHTTPTransport:
        limits = httpx.Limits(
            max_connections=1, max_keepalive_connections=1, keepalive_expiry=_KEEP_SECONDS
        )
        return httpx.AsyncHTTPTransport(verify=self.tls or False, trust_env=False, limits=limits)

    async def _hang_up(
        self, line: httpx.AsyncHTTPTransport, is_patient: bool, *, keep: bool
    ) -> None:
        if not is_patient:
            self._calls.release()
        if keep and len(self._lines) < _IDLE:
            self._lines.append(line)
        else:
            await line.aclose()

    async def fetch(self, target: bytes, headers: Headers) -> Answer:
        """The whole answer to a GET, asked a second time where a connection broke under it."""
        try:
            return await self._fetch(target, headers)
        except UpstreamAway:
            return await self._fetch(target, headers)

    async def _fetch(self, target: bytes, headers: Headers) -> Answer:
        response = await self.open("GET", target, headers, read_seconds=_ANSWER_SECONDS)
        try:
            body = b"".join([piece async for piece in response.aiter_raw()])
        except httpx.HTTPError as error:
            raise UpstreamAway(str(error)) from error
        finally:
            await response.aclose()
        dropped = (b"content-length", b"x-request-id")
        kept = [header for header in to_caller(response.headers.raw) if header[0] not in dropped]
        return Answer(response.status_code, kept, body)

    async def close(self) -> None:
        for line in self._lines:
            await line.aclose()


class _Heard(httpx.AsyncByteStream):
    """The body of an answer; when it is closed the line is free again."""

    def __init__(self, body: httpx.AsyncByteStream, hang_up: Callable[[], Awaitable[None]]) -> None:
        self._body = body
        self._hang_up: Callable[[], Awaitable[None]] | None = hang_up

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._body:
            yield piece

    async def aclose(self) -> None:
        hang_up, self._hang_up = self._hang_up, None
        if hang_up is not None:
            try:
                await self._body.aclose()
            finally:
                await hang_up()
