"""Gives every request an id that its log lines and its answer carry, and logs how it went.

Around the whole application, so that answers to bugs have it too. Neither bodies nor queries are
logged: both may hold secrets.
"""

import logging
import random
import re
import time
from typing import Final

import structlog
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tgpu.log import request_id

_NAME: Final = "gpu_scheduler.requests"
_log = structlog.get_logger(_NAME)
_levels = logging.getLogger(_NAME)

# To tell requests apart, not to keep secrets: asking the kernel took a twentieth of each request.
_ids: Final = random.Random()

HEADER: Final = "X-Request-ID"
_RAW_HEADER: Final = HEADER.lower().encode()
# What may come from outside into every line of the log and back into an answer.
_FIT: Final = re.compile(rb"[A-Za-z0-9._:+/=@-]{1,128}")


class RequestLog:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        ours = _given(scope) or f"{_ids.getrandbits(64):016x}"
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = ours
            elif message["type"] == "websocket.accept":
                status = 101
                MutableHeaders(scope=message)[HEADER] = ours
            await send(message)

        before = request_id.set(ours)
        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            # The id stays set: the server logs the traceback in this task, after us.
            _report(scope, 500, began)
            raise
        _report(scope, status, began)
        request_id.reset(before)


def _given(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == _RAW_HEADER:
            return value.decode("ascii") if _FIT.fullmatch(value) else None
    return None


def _report(scope: Scope, status: int, began: float) -> None:
    # "Try again later" is no error of the request's: whoever is in trouble says so.
    level = logging.WARNING if status >= 500 and status != 503 else logging.DEBUG
    if _levels.isEnabledFor(level):
        _log.log(
            level,
            "request",
            method=scope.get("method", "WEBSOCKET"),
            path=scope["path"],
            status=status,
            duration_ms=round((time.perf_counter() - began) * 1000, 1),
        )
