"""What the engine and the supervisor say to each other over the Unix socket.

Newline-ended JSON arrays, the first element naming the message; many in one write. A launch is
followed, after a tab, by the JSON object with command, directory and environment, which the
supervisor hands on to a runner as it came, without decoding it.

    engine -> supervisor                        supervisor -> engine
    ["hello", version]                          ["hello", version, pid]
    ["epoch", number]                           ["overtaken", request, number]
    ["launch", *key, grace, limit]\\t{…}         ["all", [observation, …]]   once, after the hello
    ["stop", [key, …], notice]                  ["changes", [observation, …]]
    ["pause", [key, …], paused]                 ["done", request]           all before it is durable
    ["forget", [key, …]]                        ["observed", request, [observation, …]]
    ["observe", request]
    ["sync", request]
    ["quit"]

A key is [job, attempt, identity]. A notice is null, or [signal, ms]: what preempted ones get
before TERM, and how long before.

An epoch holds for the launches and stops that follow it on the connection, and is 0 before that.
Those of a lower one than the highest ever seen are passed over, and the next sync is answered by
"overtaken" with the highest.
"""

import json
import signal
from typing import Any, NamedTuple

VERSION = 6

Key = tuple[str, int, str]  # job id, attempt, identity of the job
Notice = tuple[int, int]  # a signal, and the milliseconds from it until TERM

_MOST_MS = 2**53  # far behind anybody's patience, and exact in a float


class Seen(NamedTuple):
    """An observation as it travels and as the journal keeps it."""

    job_id: str
    attempt: int
    identity: str
    phase: str
    at: int
    started_at: int | None = None
    pid: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    cause: str | None = None
    user_cpu_ms: int = 0
    system_cpu_ms: int = 0
    max_rss_kib: int = 0
    retry: bool = True


# ASCII only, so that arguments and variables that are not UTF-8 (which Python holds as lone
# surrogates) arrive as they were, and so that a tab or newline never appears inside.
_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, check_circular=False)


def encode(*message: object) -> bytes:
    return _encoder.encode(message).encode() + b"\n"


def encode_launch(
    key: Key, grace_ms: int, time_limit_ms: int | None, command: dict[str, object]
) -> bytes:
    head = _encoder.encode(("launch", *key, grace_ms, time_limit_ms))
    return f"{head}\t{_encoder.encode(command)}\n".encode()


def decode(line: bytes) -> list[Any]:
    """Raises ValueError for anything that is not one of our messages."""
    try:
        message = json.loads(line)
    except RecursionError:
        raise ValueError("not a message: it is nested too deep") from None
    if not isinstance(message, list) or not message:
        raise ValueError(f"not a message: {line[:80]!r}")
    return message


# What a client sends is looked at before anything is done with it: one that is confused, or of
# another version, must not take the supervisor of all jobs down with it. All raise ValueError.


def as_key(value: Any) -> Key:
    match value:
        case [str(job_id), int(attempt), str(identity)] if not isinstance(attempt, bool):
            if attempt >= 0:
                return job_id, attempt, identity
    raise _strange("an attempt", value)


def as_keys(value: Any) -> list[Key]:
    if not isinstance(value, list):
        raise _strange("a list of attempts", value)
    return [as_key(key) for key in value]


def as_ms(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_MS:
        return value
    raise _strange("a time in ms", value)


def as_epoch(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_MS:
        return value
    raise _strange("an epoch", value)


def as_notice(value: Any) -> Notice | None:
    match value:
        case None:
            return None
        case [int(number), ms] if number in signal.valid_signals():
            return int(number), as_ms(ms)
    raise _strange("a notice", value)


def as_flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _strange("true or false", value)


def _strange(wanted: str, value: object) -> ValueError:
    return ValueError(f"not {wanted}: {str(value)[:80]!r}")


class LineSplitter:
    """Cuts a stream of bytes into lines."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._rest += data
        if b"\n" not in data:  # a large message in parts: do not search the whole again each time
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return lines
