"""How large a request may be: its query, and its body."""

from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

_MIB: Final = 1 << 20
_MOST_PARAMETERS: Final = 100
_LONGEST_QUERY: Final = 16_384


@dataclass(frozen=True, slots=True)
class BodyLimits:
    body_mib: int = 2
    ingest_mib: int = 1024  # these are read as streams, and never in memory as a whole
    batch_mib: int = 64

    def of(self, path: str) -> int:
        streams = {"/ingest": self.ingest_mib, "/jobs/batch": self.batch_mib}
        return streams.get(path, self.body_mib) * _MIB


def too_large(limit: int) -> HTTPException:
    """As an HTTPException, which FastAPI lets through where it reads a body."""
    return HTTPException(413, f"the body has more than {limit // _MIB} MiB; send it in parts")


def refusal_of(scope: Scope) -> HTTPException | None:
    """Why a request is refused by its head alone."""
    query = scope["query_string"]
    if len(query) > _LONGEST_QUERY or query.count(b"&") >= _MOST_PARAMETERS:
        return HTTPException(
            422,
            f"query: must have at most {_MOST_PARAMETERS} parameters and {_LONGEST_QUERY} bytes",
        )
    encodings = [value for name, value in scope["headers"] if name == b"content-encoding"]
    if any(value.strip().lower() not in (b"", b"identity") for value in encodings):
        # A few bytes may be packed gigabytes, and what they are is known only once unpacked.
        packed = encodings[0][:40].decode("latin-1")
        return HTTPException(
            415, f"Content-Encoding: {packed!r} is not accepted; send it uncompressed"
        )
    return None


def limited(receive: Receive, limit: int) -> Receive:
    """The same body, cut off with 413 where it is longer than its header said, or than allowed."""
    received = 0

    async def counting() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > limit:
                raise too_large(limit)
        return message

    return counting
