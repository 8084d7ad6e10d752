"""What the engine and the supervisor say to each other over the Unix socket.

Newline-ended JSON arrays, the first element naming the message; many in one write. A launch is
followed, after a tab, by the JSON object with command, directory and environment, which the
supervisor hands on to a runner as it came, without decoding it.

    engine -> supervisor                        supervisor -> engine
    ["hello", version]                          ["hello", version, pid]
    ["launch", job, attempt, grace, limit]\\t{…} ["all", [observation, …]]   once, after the hello
    ["stop", [[job, attempt], …], notice]       ["changes", [observation, …]]
    ["forget", [[job, attempt], …]]             ["done", request]           all before it is durable
    ["observe", request]                        ["observed", request, [observation, …]]
    ["sync", request]
    ["quit"]

A notice is null, or [signal, ms]: what those that give way get before TERM, and how long before.
"""

import json
from typing import Any, NamedTuple

VERSION = 3

Key = tuple[str, int]
Notice = tuple[int, int]  # a signal, and the milliseconds from it until TERM


class Seen(NamedTuple):
    """An observation as it travels and as the journal keeps it."""

    job_id: str
    attempt: int
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
    message = json.loads(line)
    if not isinstance(message, list) or not message:
        raise ValueError(f"not a message: {line[:80]!r}")
    return message


class Lines:
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
