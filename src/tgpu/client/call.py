"""One call of the API as a value: what is sent, and how its answer is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from tgpu.client.errors import NotFound

T_co = TypeVar("T_co", covariant=True)
M = TypeVar("M", bound=BaseModel)
Query = Mapping[str, str | int | float | bool | None]
Headers = Mapping[str, str]
Reader = Callable[[bytes, Headers], T_co]


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """`read` makes the answer from content and headers; what it raises is a bad answer."""

    method: str
    path: str
    read: Reader[T_co]
    query: Query = field(default_factory=dict)  # None: not sent
    body: bytes | None = None
    content_type: str = "application/json"
    poll_seconds: float = 0  # how long the service may let us wait on purpose


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Some bytes of a log. `complete` says that nothing follows after `size`."""

    data: bytes
    offset: int  # of the first byte of `data`
    size: int  # of the whole log when it was read
    complete: bool
    left_out: int = 0  # bytes of it that are not there: taken out of its middle, over its limit

    @property
    def end(self) -> int:
        return self.offset + len(self.data)

    @property
    def is_last(self) -> bool:
        return self.complete and self.end >= self.size


def decode_as(model: type[M]) -> Reader[M]:
    # A newer service may say more than we know; that is no error.
    return lambda content, _: model.model_validate_json(content, extra="ignore")


def no_content(_: bytes, __: Headers) -> None:
    """For answers without content."""


def log_chunk(content: bytes, headers: Headers) -> LogChunk:
    try:
        offset, size = int(headers["x-log-offset"]), int(headers["x-log-size"])
    except (KeyError, ValueError):
        raise ValueError("a log without X-Log-Offset and X-Log-Size") from None
    complete = headers.get("x-log-complete", "").lower() == "true"
    left_out = headers.get("x-log-left-out", "")
    return LogChunk(content, offset, size, complete, int(left_out) if left_out.isdecimal() else 0)


def encoded(body: BaseModel) -> bytes:
    """Only what was set, so that null in a change lifts a limit and silence leaves it."""
    return body.model_dump_json(exclude_unset=True).encode()


def path_of(*parts: str, kind: str = "job") -> str:
    """Joined and quoted. "." and ".." have a meaning of their own in paths, and are never ids."""
    for part in parts:
        if part in ("", ".", ".."):
            code = "JOB_NOT_FOUND" if kind == "job" else "NOT_FOUND"
            raise NotFound(code, f"no {kind} named {part!r}", status=404)
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)
