"""Middleware around the whole application: authentication, rate and size limits, audit log."""

import contextlib
import json
from typing import Any, Final

import structlog
from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tgpu.api.auth.authenticator import Authenticator
from tgpu.api.auth.doors import NOBODY, NotServed, user_of
from tgpu.api.auth.open_calls import OpenCalls
from tgpu.api.auth.refusals import Refusals
from tgpu.api.auth.web_pages import WebPages, host_name
from tgpu.api.errors import body, http_error
from tgpu.api.rest.body_limits import BodyLimits, limited, refusal_of, too_large
from tgpu.api.rest.rules import PERMISSION_OF_PATH, PUBLIC_PATHS
from tgpu.api.rest.unfinished import Unfinished
from tgpu.core.errors import (
    Malformed,
    RateLimited,
    SchedulerError,
    Unauthenticated,
    Unavailable,
)
from tgpu.peers.protocol import origin_of
from tgpu.service.identity.caller import LOCAL, Permission, Principal
from tgpu.service.recording.audit import OK, Trail, following
from tgpu.token_buckets import TokenBuckets

_log = structlog.get_logger("gpu_scheduler.audit")

# Paths of calls that may last: streams, and those that wait for something.
_LASTING: Final = ("/events", "/wait", "/logs", "/journal", "/ingest")
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
_REFUSED_CODES: Final = {415: "UNSUPPORTED_ENCODING", 422: "VALIDATION_ERROR"}
_HSTS: Final = "max-age=31536000"

_SHOWN: Final = frozenset({"key", "user"})  # callers who are known by what they show


class Entrance:
    """Who sends a request over HTTP."""

    def __init__(self, authenticator: Authenticator, pages: WebPages) -> None:
        self._authenticator = authenticator
        self._pages = pages

    async def identify(self, scope: Scope, headers: Headers) -> Principal:
        """Raises what `Authenticator.authenticate` does, Forbidden for web pages, Malformed."""
        host_name(headers)  # others read it too, and take for granted that it can be read
        origin = origin_of(scope)
        principal = await self._authenticator.authenticate(headers, origin)
        if principal.kind not in _SHOWN and not origin.is_unix:
            # Known by the connection alone, which a browser makes for any page.
            self._pages.refuse(headers)
        return principal


class AuthGate:
    """ASGI. Puts the caller into the connection's state, where `principal_of` finds them."""

    def __init__(
        self,
        app: FastAPI,
        authenticator: Authenticator,
        *,
        buckets: TokenBuckets | None = None,
        body_limits: BodyLimits | None = None,
        pages: WebPages | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._refusals = refusals or Refusals()
        self._calls = OpenCalls()
        self._entrance = Entrance(authenticator, pages or WebPages())
        self._buckets = buckets or TokenBuckets(0, 1)
        self._body_limits = body_limits or BodyLimits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, _with_headers(scope, send))
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        trail = None if scope["method"] in _READS else _trail(scope)
        if trail is not None:
            send = self._audited(trail, send)
        try:
            principal = await self._identify(scope, headers)
            if trail is not None:
                trail.identify(principal, user_of(origin_of(scope)))
            self._count(principal, scope)
            _check_mounted(scope, principal)
            limit = self._checked_length(scope, headers)
        except SchedulerError as error:
            self._refusals.count("rest", http_error(error).code)
            await _refuse(error, scope, receive, send)
            return
        if refused := refusal_of(scope):
            code = _REFUSED_CODES[refused.status_code]
            await _answer(refused.status_code, code, refused.detail)(scope, receive, send)
            return
        if limit is None:
            most = too_large(self._body_limits.of(scope["path"])).detail
            await _answer(413, "TOO_LARGE", most)(scope, receive, send)
            return
        scope.setdefault("state", {})["principal"] = principal
        if trail is None:
            await self._serve_http(scope, receive, send, principal)
        else:
            with following(trail):
                await self._serve_http(scope, limited(receive, limit), send, principal)

    def _checked_length(self, scope: Scope, headers: Headers) -> int | None:
        """How long the body may be; None where it says that it is longer. Malformed."""
        said = headers.get("content-length", "") or "0"
        if not (said.isascii() and said.isdigit() and len(said) <= 20):
            raise Malformed("Content-Length", said, "must be a number of bytes")
        limit = self._body_limits.of(scope["path"])
        return None if int(said) > limit else limit

    async def _serve_http(
        self, scope: Scope, receive: Receive, send: Send, principal: Principal
    ) -> None:
        if not scope["path"].endswith(_LASTING):
            await self._app(scope, receive, send)
            return
        answer = Unfinished(send)
        lapse = self._authenticator.lapse(Headers(scope=scope), principal)
        sentence = await self._calls.run(_call(self._app, scope, receive, answer.send), lapse)
        if sentence is not None and not await answer.tell(sentence):
            await _refuse(Unauthenticated(sentence), scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            principal = await self._identify(scope, Headers(scope=scope))
            self._count(principal, scope)
        except SchedulerError as error:
            self._refusals.count("rest", http_error(error).code)
            # Before it is accepted this becomes an answer with status 403.
            await send({"type": "websocket.close", "code": 1008, "reason": error.message[:120]})
            return
        scope.setdefault("state", {})["principal"] = principal
        lapse = self._authenticator.lapse(Headers(scope=scope), principal)
        sentence = await self._calls.run(_call(self._app, scope, receive, send), lapse)
        if sentence is not None:
            with contextlib.suppress(RuntimeError, OSError):  # it is closed already
                await send({"type": "websocket.close", "code": 1008, "reason": sentence})

    async def _identify(self, scope: Scope, headers: Headers) -> Principal:
        try:
            principal = await self._entrance.identify(scope, headers)
        except (Unauthenticated, NotServed, Unavailable) as error:
            if scope["path"] in PUBLIC_PATHS:
                return NOBODY
            if wait := self._buckets.take(f"from {origin_of(scope).address}"):
                raise RateLimited(wait) from error
            raise
        return principal

    def _count(self, principal: Principal, scope: Scope) -> None:
        # Where nobody is asked who they are, an address is all that tells callers apart.
        known = principal not in (LOCAL, NOBODY)
        if wait := self._buckets.take(
            principal.actor if known else f"from {origin_of(scope).address}"
        ):
            raise RateLimited(wait)

    # -- what is kept about it -------------------------------------------------------------------

    def _audited(self, trail: Trail, send: Send) -> Send:
        """Holds the answer back until the call is on record, unless its change has put it there."""
        start: Message | None = None

        async def sending(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                held, start = start, None
                if not trail.recorded:
                    await self._record(trail, held["status"], message.get("body", b""))
                await send(held)
            await send(message)

        return sending

    async def _record(self, trail: Trail, status: int, content: bytes) -> None:
        code, detail = (OK, "nothing was changed") if status < 400 else _error_in(content)
        if code == "RATE_LIMITED":
            return  # it is refused because there are too many of them
        is_stranger = status >= 400 and trail.actor == NOBODY.name
        row = self._refusals.row(trail, code, detail) if is_stranger else trail.row(code, detail)
        if row is None:
            return
        trail.recorded = True

        service = self._app.state.service
        try:
            if service is not None:
                await service.recorder.add_audit_row(row)
        except Unavailable as error:
            _log.warning("cannot record a refused call", problem=error.message, row=str(row))


async def _call(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


class ForOperators:
    """ASGI around what tells of everybody's jobs and has no routes of its own: the metrics port."""

    def __init__(
        self, app: ASGIApp, entrance: "Entrance", refusals: Refusals, buckets: TokenBuckets
    ) -> None:
        self._app = app
        self._buckets = buckets
        self._entrance = entrance
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                if wait := self._buckets.take(f"from {origin_of(scope).address}"):
                    raise RateLimited(wait)
                principal = await self._entrance.identify(scope, Headers(scope=scope))
                principal.require(Permission.SEE_CLUSTER)
            except SchedulerError as error:
                self._refusals.count("metrics", http_error(error).code)
                await _refuse(error, scope, receive, send)
                return
        await self._app(scope, receive, send)


def _trail(scope: Scope) -> Trail:
    return Trail("nobody", f"{scope['method']} {scope['path']}", origin_of(scope).address)


def _check_mounted(scope: Scope, principal: Principal) -> None:
    permission = PERMISSION_OF_PATH.get(scope["path"])
    if permission is not None:
        principal.require(permission)


def _with_headers(scope: Scope, send: Send) -> Send:
    is_encrypted = scope.get("scheme") == "https"

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS:
                headers.setdefault(name, value)
            if is_encrypted:
                headers.setdefault("Strict-Transport-Security", _HSTS)
        await send(message)

    return sending


async def _refuse(error: SchedulerError, scope: Scope, receive: Receive, send: Send) -> None:
    found = http_error(error)
    answer = _answer(found.status, found.code, error.message, error.details)
    if isinstance(error, Unauthenticated):
        answer.headers["WWW-Authenticate"] = 'Bearer realm="tgpu"'
    if isinstance(error, RateLimited | Unavailable):
        answer.headers["Retry-After"] = str(error.wait_seconds)
    await answer(scope, receive, send)


def _answer(
    status: int, code: str, message: str, details: list[dict[str, object]] | None = None
) -> JSONResponse:
    return JSONResponse(body(code, message, details), status)


def _error_in(content: bytes) -> tuple[str, str]:
    """Code and message of an answer in our shape."""
    try:
        error: Any = json.loads(content)["error"]
        return str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return "ERROR", ""
