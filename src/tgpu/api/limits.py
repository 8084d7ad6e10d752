"""Limits per caller: requests per second, and bytes in a body."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

_MIB: Final = 1 << 20
_MOST_PARAMETERS: Final = 100
_LONGEST_QUERY: Final = 16_384
# Callers that are remembered at once; those who have not asked for a while are forgotten first.
_CALLERS: Final = 10_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class TokenBuckets:
    """A bucket of `burst` requests for each caller, refilled at `per_second`; 0 is no limit."""

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, caller: str) -> float:
        """Take one request out of the caller's bucket; the seconds to wait where it is empty."""
        if not self._per_second:
            return 0.0
        now = self._clock()
        bucket = self._buckets.pop(caller, None) or _Bucket(self._burst, now)
        grown = bucket.tokens + (now - bucket.filled_at) * self._per_second
        bucket.tokens = min(float(self._burst), grown)
        bucket.filled_at = now
        self._buckets[caller] = bucket  # at the end: those at the front were used longest ago
        if len(self._buckets) > _CALLERS:
            del self._buckets[next(iter(self._buckets))]
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0.0
        return (1 - bucket.tokens) / self._per_second


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
