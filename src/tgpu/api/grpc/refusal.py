"""Ends a call with an error: a status, a sentence, and the facts in a trailer."""

import json
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import quote

import grpc
import structlog
from pydantic import ValidationError

from tgpu.api.errors import body, http_error
from tgpu.api.grpc.decoding import decoded
from tgpu.api.translate.wording import complaints, sentence
from tgpu.core.errors import SchedulerError
from tgpu.text.masking import mask_text

_log = structlog.get_logger("gpu_scheduler.api.grpc")

# The JSON that REST would have answered with.
TRAILER: Final = "tgpu-error"
# All headers of an answer share 8 KiB, and some are gRPC's own. In both places a character may
# take up twelve bytes, so the shorter message fits whatever it says.
_MOST_BYTES: Final = 7000
_SHORT_MESSAGE: Final = 280

Context = grpc.aio.ServicerContext[Any, Any]
_S = TypeVar("_S")
_Q = TypeVar("_Q")
_A = TypeVar("_A")


class NotReady(Exception):
    """The service has not loaded yet what it knows, or is about to end."""


def answering(
    call: Callable[[_S, _Q, Context], Awaitable[_A]],
) -> Callable[[_S, _Q, Context], Awaitable[_A]]:
    """A method of a servicer whose errors end the call as they should."""

    @wraps(call)
    async def guarded(servicer: _S, request: _Q, context: Context) -> _A:
        try:
            return await call(servicer, decoded(request), context)
        except Exception as error:
            await refuse(context, error)

    return guarded


async def refuse(context: Context, error: Exception) -> NoReturn:
    """End a call because of an error; raises what tells gRPC so."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    status, code, message, details = _described(error)
    trailer = json.dumps(body(code, message, details), default=str)
    if len(quote(message)) + len(trailer) > _MOST_BYTES:
        message = message[:_SHORT_MESSAGE]
        trailer = json.dumps(body(code, message))
    await context.abort(status, mask_text(message), ((TRAILER, trailer),))


def _described(error: Exception) -> tuple[grpc.StatusCode, str, str, list[dict[str, object]]]:
    match error:
        case SchedulerError():
            found = http_error(error)
            if found.code == "INTERNAL_ERROR":
                _log.error("an invariant is broken", problem=error.message, details=error.details)
            return grpc.StatusCode[found.grpc], found.code, error.message, error.details
        case ValidationError():
            found_wrong = complaints(error.errors(include_url=False))
            text = sentence(found_wrong)
            return grpc.StatusCode.INVALID_ARGUMENT, "VALIDATION_ERROR", text, found_wrong
        case NotReady():
            text = "the service is starting or stopping; try again in a moment"
            return grpc.StatusCode.UNAVAILABLE, "SERVICE_NOT_READY", text, []
    _log.error("a call met a bug", exc_info=error)
    text = "internal error of the service; its log has the details"
    return grpc.StatusCode.INTERNAL, "INTERNAL_ERROR", text, []
