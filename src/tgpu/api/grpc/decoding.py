"""Rejects bytes that are not a message of their type, with a message of our own."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError

from tgpu.core.errors import InvalidRequest

if TYPE_CHECKING:  # generic for the type checker alone
    Handler = grpc.RpcMethodHandler[Any, Any]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Undecodable:
    """In place of a request that could not be read."""

    size: int


def decoded(request: _T | Undecodable) -> _T:
    """The request. Raises InvalidRequest for bytes that are none."""
    if isinstance(request, Undecodable):
        raise InvalidRequest(
            "message",
            f"{request.size} bytes",
            "must be a message of the type that scheduler.proto gives for this call",
        )
    return request


class Decoding(grpc.aio.ServerInterceptor):
    """What does not decode reaches the method as `Undecodable`.

    Raised inside of the library it would be a status UNKNOWN, and a stack trace in our log for each
    packet that somebody sends. Only our own `services` know what that is.
    """

    def __init__(self, services: Collection[str]) -> None:
        self._services = services

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["Handler | None"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        handler = await continuation(handler_call_details)
        service = str(handler_call_details.method).lstrip("/").partition("/")[0]
        if handler is None or service not in self._services:
            return handler
        assert handler.request_deserializer is not None  # every method of ours has one
        kind = (bool(handler.request_streaming), bool(handler.response_streaming))
        attribute, make = _KINDS[kind]
        return make(
            getattr(handler, attribute),
            _tolerant(handler.request_deserializer),
            handler.response_serializer,
        )


_KINDS: Final[dict[tuple[bool, bool], tuple[str, Callable[..., "Handler"]]]] = {
    (False, False): ("unary_unary", grpc.unary_unary_rpc_method_handler),
    (False, True): ("unary_stream", grpc.unary_stream_rpc_method_handler),
    (True, False): ("stream_unary", grpc.stream_unary_rpc_method_handler),
    (True, True): ("stream_stream", grpc.stream_stream_rpc_method_handler),
}


def _tolerant(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def decode_or_tell(content: bytes) -> Any:
        try:
            return decode(content)
        except DecodeError:
            return Undecodable(len(content))

    return decode_or_tell
