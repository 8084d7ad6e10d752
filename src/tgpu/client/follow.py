"""Follows a job and its log by long polling until it ends."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from tgpu.client.call import LogChunk
from tgpu.client.errors import ClientError, TimedOut, may_pass
from tgpu.client.http import Client
from tgpu.client.steps import (
    ENDED,
    LOOKS,
    PATIENCE_SECONDS,
)
from tgpu.wire.v1 import JobModel

__all__ = [
    "ENDED",
    "TimedOut",
    "follow_attempt",
    "follow_job",
    "patiently",
    "read_log",
    "wait_until_over",
    "wait_until_started",
]

_LOOK_SECONDS: Final = 0.5
_MOST_BYTES: Final = 10_000_000  # of a log in one answer
_T = TypeVar("_T")
Write = Callable[[str, bytes], None]  # stream, bytes
Notice = Callable[[JobModel], None]


def wait_until_over(client: Client, job_id: str, deadline: float | None = None) -> JobModel:
    """The job once it is over. `deadline` is on the monotonic clock; TimedOut when it passes."""
    return client.wait(job_id, None if deadline is None else deadline - time.monotonic())


def wait_until_started(
    client: Client, job_id: str, after_attempt: int = 0, on_waiting: Notice | None = None
) -> JobModel:
    """The job once an attempt after `after_attempt` has begun, or the job is over."""
    pause = LOOKS.first_seconds
    while True:
        job = patiently(lambda: client.get_job(job_id))
        if job.state in ENDED or (job.attempt > after_attempt and job.state != "scheduled"):
            return job
        if on_waiting is not None and job.state == "pending":
            on_waiting(job)
        time.sleep(pause)
        pause = LOOKS.after(pause)


def follow_job(
    client: Client,
    job_id: str,
    write: Write,
    streams: Sequence[str] = ("stdout", "stderr"),
    *,
    seen: int = 0,
    on_waiting: Notice | None = None,
) -> JobModel:
    """Pass on the log of every attempt after `seen` as it is written; return the ended job."""
    while True:
        job = wait_until_started(client, job_id, seen, on_waiting)
        while seen < job.attempt:
            seen += 1
            follow_attempt(client, job.job_id, write, streams, attempt=seen)
        job = patiently(lambda: client.wait_job(job_id, 1))
        if job.state in ENDED and job.attempt <= seen:
            return job


def follow_attempt(
    client: Client,
    job_id: str,
    write: Write,
    streams: Sequence[str],
    *,
    attempt: int,
    offsets: Mapping[str, int] | None = None,
) -> None:
    """Pass on the log of one attempt until it is complete; `offsets` are where to begin."""
    errors: list[Exception] = []

    def follow(stream: str) -> None:
        begin = (offsets or {}).get(stream, 0)
        try:
            for data in client.follow_log(job_id, stream, attempt=attempt, offset=begin):
                write(stream, data)
        except Exception as error:  # raised again below, in the caller's thread
            errors.append(error)

    # One thread for each stream: a long poll on a silent one must not hold up the other. Daemons,
    # so that an interrupt ends the command without waiting for them.
    threads = [threading.Thread(target=follow, args=(stream,), daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        # Not without a limit: an interrupt that comes just before that is seen when it is over.
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
    if errors:
        raise errors[0]


def read_log(
    client: Client, job_id: str, stream: str, attempt: int | None, tail_lines: int | None
) -> tuple[list[bytes], int]:
    """What the log holds now, its last `tail_lines` only if given, and the offset after it."""
    if tail_lines is None:
        return _read_on(client, job_id, stream, attempt, 0)
    size, before = 64 * 1024, -1
    while True:
        chunk = _chunk(client, job_id, stream, attempt, -size)
        if chunk is None:
            return [], 0
        lines = chunk.data.splitlines(keepends=True)
        # Where the middle was left out, there is no more before it however far back one asks.
        is_all = chunk.offset in (0, before) or size == _MOST_BYTES
        if is_all or len(lines) > tail_lines:
            return lines[-tail_lines:] if tail_lines else [], chunk.end
        size, before = min(size * 8, _MOST_BYTES), chunk.offset


def patiently(call: Callable[[], _T]) -> _T:
    """Make a call that may be repeated, again and again while the service is being restarted."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return call()
        except ClientError as error:
            if not may_pass(error) or time.monotonic() >= limit:
                raise
            time.sleep(LOOKS.longest_seconds / 2)


def _read_on(
    client: Client, job_id: str, stream: str, attempt: int | None, offset: int
) -> tuple[list[bytes], int]:
    parts = []
    while (chunk := _chunk(client, job_id, stream, attempt, offset)) is not None:
        parts.append(chunk.data)
        offset = chunk.end
        if not chunk.data or offset >= chunk.size:
            break
    return parts, offset


def _chunk(
    client: Client, job_id: str, stream: str, attempt: int | None, offset: int
) -> LogChunk | None:
    """None: this job has written no log (yet)."""
    limit = max(1_000_000, -offset)
    try:
        return client.read_log(job_id, stream, offset=offset, limit=limit, attempt=attempt)
    except ClientError as error:
        if error.code == "NO_LOG":
            return None
        raise
