"""Following a job through its long polls: until it is over, and its log as it is written."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from gpu_scheduler.client.errors import ClientError, Lost, NoService
from gpu_scheduler.client.http import Client, LogChunk
from gpu_scheduler.wire.v1 import JobModel

ENDED: Final = frozenset({"completed", "failed", "cancelled"})
_POLL_SECONDS: Final = 20.0
# There is no long poll for "started": look again after this long, less often as time goes by.
_FIRST_LOOK_SECONDS: Final = 0.05
_LATER_LOOK_SECONDS: Final = 1.0
# The service may be restarted while jobs go on; a restart with a long history takes seconds.
_PATIENCE_SECONDS: Final = 30.0

_T = TypeVar("_T")
Write = Callable[[str, bytes], None]  # stream, bytes
Notice = Callable[[JobModel], None]


@dataclass(slots=True)
class _Place:
    """How far one stream of one attempt has been passed on."""

    job_id: str
    stream: str
    attempt: int
    offset: int


class TimedOut(Exception):
    """The job was not over when the time was up; `job` is how it stood."""

    def __init__(self, job: JobModel) -> None:
        super().__init__(job.job_id)
        self.job = job


def wait_until_over(client: Client, job_id: str, deadline: float | None = None) -> JobModel:
    """The job once it is over. `deadline` is on the monotonic clock; TimedOut when it passes."""
    while True:
        left = _POLL_SECONDS if deadline is None else deadline - time.monotonic()
        poll_seconds = max(0.0, min(left, _POLL_SECONDS))
        job = patiently(partial(client.wait_job, job_id, poll_seconds))
        if job.state in ENDED:
            return job
        if deadline is not None and time.monotonic() >= deadline:
            raise TimedOut(job)


def wait_until_started(
    client: Client, job_id: str, after_attempt: int = 0, on_waiting: Notice | None = None
) -> JobModel:
    """The job once an attempt after `after_attempt` has begun, or the job is over."""
    pause = _FIRST_LOOK_SECONDS
    while True:
        job = patiently(lambda: client.get_job(job_id))
        if job.state in ENDED or (job.attempt > after_attempt and job.state != "scheduled"):
            return job
        if on_waiting is not None and job.state == "pending":
            on_waiting(job)
        time.sleep(pause)
        pause = min(pause * 1.5, _LATER_LOOK_SECONDS)


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
        place = _Place(job_id, stream, attempt, (offsets or {}).get(stream, 0))
        try:
            _follow_stream(client, place, write)
        except Exception as error:  # raised again below, in the caller's thread
            errors.append(error)

    # One thread for each stream: a long poll on a silent one must not hold up the other. Daemons,
    # so that an interrupt ends the command without waiting for them.
    threads = [threading.Thread(target=follow, args=(stream,), daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def read_log(
    client: Client, job_id: str, stream: str, attempt: int | None, tail_lines: int | None
) -> tuple[list[bytes], int]:
    """What the log holds now, its last `tail_lines` only if given, and the offset after it."""
    if tail_lines is None:
        return _read_on(client, job_id, stream, attempt, 0)
    size = 64 * 1024
    while True:
        chunk = _chunk(client, job_id, stream, attempt, -size)
        if chunk is None:
            return [], 0
        lines = chunk.data.splitlines(keepends=True)
        if chunk.offset == 0 or len(lines) > tail_lines:
            return lines[-tail_lines:] if tail_lines else [], chunk.end
        size *= 8


def patiently(call: Callable[[], _T]) -> _T:
    """Make a call that may be repeated, again and again while the service is being restarted."""
    limit = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return call()
        except (NoService, Lost):
            if time.monotonic() >= limit:
                raise
            time.sleep(_LATER_LOOK_SECONDS / 2)


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


def _follow_stream(client: Client, place: _Place, write: Write) -> None:
    pause = _FIRST_LOOK_SECONDS
    while True:
        chunk = patiently(lambda: _next_chunk(client, place))
        if chunk is None:
            if patiently(lambda: client.get_job(place.job_id)).state in ENDED:
                return  # it ended without ever writing a log, as a lease does
            time.sleep(pause)
            pause = min(pause * 1.5, _LATER_LOOK_SECONDS)
            continue
        if chunk.data:
            write(place.stream, chunk.data)
        place.offset = max(place.offset, chunk.end)
        if chunk.is_last:
            return


def _next_chunk(client: Client, place: _Place) -> LogChunk | None:
    try:
        return client.read_log(
            place.job_id,
            place.stream,
            offset=place.offset,
            attempt=place.attempt,
            wait_seconds=_POLL_SECONDS,
        )
    except ClientError as error:
        if error.code == "NO_LOG":
            return None
        raise
