"""Answers that are held whole: what is cached, and what the gateway itself has to say."""

import hashlib
import json
import math
from collections.abc import Iterable
from typing import Final

import msgspec
from starlette.types import Send

Headers = list[tuple[bytes, bytes]]

_UNCHANGED_DROPS: Final = (b"content-length", b"content-type")


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """Headers are without lengths and tags, which are made from the body."""

    status: int
    headers: Headers
    body: bytes
    etag: bytes = b""


_decoder: Final = msgspec.msgpack.Decoder(Answer)


def with_etag(answer: Answer) -> Answer:
    """The service's own tag where it has one, else one made from the body."""
    own = next((value for name, value in answer.headers if name == b"etag"), None)
    headers = [header for header in answer.headers if header[0] != b"etag"]
    etag = own or b'"' + hashlib.sha256(answer.body).hexdigest()[:32].encode() + b'"'
    return Answer(answer.status, headers, answer.body, etag)


def pack(answer: Answer) -> bytes:
    return msgspec.msgpack.encode(answer)


def unpack(data: bytes) -> Answer | None:
    """None for what another version of the gateway wrote."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError:
        return None


def problem(
    status: int,
    code: str,
    message: str,
    details: list[dict[str, object]] | None = None,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> Answer:
    """An error in the shape that the service gives them."""
    content = {"error": {"code": code, "message": message, "details": details or []}}
    return as_json(status, content, headers)


def as_json(status: int, content: object, headers: Iterable[tuple[bytes, bytes]] = ()) -> Answer:
    own = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), *headers]
    return Answer(status, own, json.dumps(content).encode())


def too_many(wait_seconds: float) -> Answer:
    seconds = max(1, math.ceil(wait_seconds))
    return problem(
        429,
        "RATE_LIMITED",
        f"too many requests; try again in {seconds} s",
        [{"retry_after_seconds": seconds}],
        [(b"retry-after", str(seconds).encode())],
    )


def not_there(upstream: str) -> Answer:
    return problem(
        503,
        "UNAVAILABLE",
        f"the gateway cannot reach the scheduler at {upstream}; try again in a moment",
        headers=[(b"retry-after", b"1")],
    )


async def send_whole(send: Send, answer: Answer, extra: Headers | None = None) -> None:
    headers = [
        *answer.headers,
        *(extra or ()),
        (b"content-length", str(len(answer.body)).encode()),
    ]
    if answer.etag:
        headers.append((b"etag", answer.etag))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def send_unchanged(send: Send, answer: Answer, extra: Headers) -> None:
    """304: the caller has this body already."""
    headers = [header for header in answer.headers if header[0] not in _UNCHANGED_DROPS]
    headers += [*extra, (b"etag", answer.etag)]
    await send({"type": "http.response.start", "status": 304, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def is_known(answer: Answer, if_none_match: bytes) -> bool:
    """Whether the caller says that it has this very body (RFC 9110, 13.1.2: compared weakly)."""
    if not answer.etag or not if_none_match:
        return False
    tags = [tag.strip().removeprefix(b"W/") for tag in if_none_match.split(b",")]
    return b"*" in tags or answer.etag.removeprefix(b"W/") in tags
