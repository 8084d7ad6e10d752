"""The service, as the gateway reaches it: over HTTP, with bytes that nobody changes."""

import ssl
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

import httpx

from gpu_scheduler.gateway.answer import Answer, Headers
from gpu_scheduler.gateway.headers import to_caller

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 30.0
# At most this many ordinary calls at once: more would only wait inside the service.
_CALLS: Final = 200
# Less than the five seconds after which the service closes an idle connection, so that none is
# used that is just being closed.
_KEEP_SECONDS: Final = 3.0
# Calls that may last as long as they like have connections of their own, so that any number of
# them leaves ordinary calls alone.
_PATIENT: Final = (b"/wait", b"/logs", b"/events")


class UpstreamAway(Exception):
    """The service could not be asked, or stopped answering."""


class Upstream:
    """`url` is http:// or https://, with a path before all paths where there is one."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        self.prefix = parts.path.encode()
        self.tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._base = httpx.URL(self.url)
        verify = self.tls or False
        self._calls, self._streams = (
            httpx.AsyncHTTPTransport(verify=verify, trust_env=False, limits=_limits(number))
            for number in (_CALLS, None)
        )

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
        path = target.partition(b"?")[0]
        transport = self._streams if path.endswith(_PATIENT) else self._calls
        try:
            return await transport.handle_async_request(request)
        except (httpx.HTTPError, OSError) as error:
            raise UpstreamAway(str(error) or type(error).__name__) from error

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
        await self._calls.aclose()
        await self._streams.aclose()


def _limits(connections: int | None) -> httpx.Limits:
    return httpx.Limits(
        max_connections=connections, max_keepalive_connections=50, keepalive_expiry=_KEEP_SECONDS
    )
