"""Operations of several calls, written once for both clients.

Each function here is a generator: it yields the calls and pauses that it wants, gets their answers
back, and lets a client of its colour carry them out. Nothing is sent and nobody sleeps here.
"""

import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar, Unpack, cast

from tgpu.client import calls
from tgpu.client.call import Call
from tgpu.client.calls import PAGE, JobFilter
from tgpu.client.errors import ClientError, TimedOut, may_pass
from tgpu.pauses import Pauses
from tgpu.wire.arrays_v1 import ArraySummary
from tgpu.wire.events_v1 import EventModel
from tgpu.wire.v1 import JobModel

ENDED: Final = frozenset({"completed", "failed", "cancelled"})
POLL_SECONDS: Final = 20.0
# There is no long poll for "started": look again after this long, less often as time goes by.
LOOKS: Final = Pauses(first_seconds=0.05, longest_seconds=1.0, growth=1.5)
# The service may be restarted while jobs go on; a restart with a long history takes seconds.
PATIENCE_SECONDS: Final = 30.0

T = TypeVar("T")
W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """Something for the caller to have now."""

    value: T


Wish: TypeAlias = Call[object] | Pause
Steps: TypeAlias = Generator[Wish, object, T]
Stream: TypeAlias = Generator[Wish | Item[T], object, None]


class Walk(Generic[W, T]):
    """Steps on their way. `wish` is what they want now; None once they are over."""

    def __init__(self, steps: Generator[W, object, T]) -> None:
        self._steps = steps
        self._ended: list[T] = []
        self.wish: W | None = None
        self.answer(None)

    def answer(self, value: object) -> None:
        try:
            self.wish = self._steps.send(value)
        except StopIteration as end:
            self._end(end)

    def fail(self, error: ClientError) -> None:
        try:
            self.wish = self._steps.throw(error)
        except StopIteration as end:
            self._end(end)

    @property
    def result(self) -> T:
        return self._ended[0]

    def _end(self, end: StopIteration) -> None:
        # Here and not in the clients: StopIteration may not leave a coroutine.
        self.wish = None
        self._ended.append(end.value)


def ask(call: Call[T]) -> Steps[T]:
    answer = yield call
    return cast(T, answer)  # the client gives back what the call reads


def patiently(call: Call[T]) -> Steps[T]:
    """Make a call that may be repeated, again and again while the service is being restarted."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return (yield from ask(call))
        except ClientError as error:
            if not may_pass(error) or time.monotonic() >= limit:
                raise
        yield Pause(LOOKS.longest_seconds / 2)


def wait(job_id: str, timeout_seconds: float | None) -> Steps[JobModel]:
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    while True:
        left = POLL_SECONDS if deadline is None else deadline - time.monotonic()
        job = yield from patiently(calls.wait_job(job_id, max(0.0, min(left, POLL_SECONDS))))
        if job.state in ENDED:
            return job
        if deadline is not None and time.monotonic() >= deadline:
            raise TimedOut(job)


def wait_array(array_id: str, timeout_seconds: float | None) -> Steps[ArraySummary]:
    """As it stands when the time is up, where not all of it is over by then."""
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    while True:
        left = POLL_SECONDS if deadline is None else deadline - time.monotonic()
        poll = max(0.0, min(left, POLL_SECONDS))
        array = yield from patiently(calls.wait_array(array_id, poll))
        if array.is_over or (deadline is not None and time.monotonic() >= deadline):
            return array


def iter_jobs(limit: int | None, **wanted: Unpack[JobFilter]) -> Stream[JobModel]:
    cursor: int | None = None
    left = limit
    while left is None or left > 0:
        size = PAGE if left is None else min(left, PAGE)
        page = yield from ask(calls.list_jobs(size, cursor, **wanted))
        for job in page.jobs:
            yield Item(job)
        cursor = page.next_cursor
        if cursor is None:
            return
        left = None if left is None else left - len(page.jobs)


def iter_job_events(job_id: str, after: int) -> Stream[EventModel]:
    place: int | None = after
    while place is not None:
        page = yield from ask(calls.job_events(job_id, place, PAGE))
        for event in page.events:
            yield Item(event)
        place = page.next_after


def follow_log(job_id: str, stream: str, attempt: int | None, offset: int) -> Stream[bytes]:
    if attempt is None:
        # Pinned: a retry would otherwise go on in the middle of another log.
        job = yield from patiently(calls.get_job(job_id))
        job_id, attempt = job.job_id, max(1, job.attempt)
    pause = LOOKS.first_seconds
    while True:
        read = calls.read_log(
            job_id, stream, offset=offset, attempt=attempt, wait_seconds=POLL_SECONDS
        )
        try:
            chunk = yield from patiently(read)
        except ClientError as error:
            if error.code != "NO_LOG":
                raise
            if (yield from patiently(calls.get_job(job_id))).state in ENDED:
                return  # it ended without ever writing a log, as a lease does
            yield Pause(pause)
            pause = LOOKS.after(pause)
            continue
        if chunk.data:
            yield Item(chunk.data)
        offset = max(offset, chunk.end)
        if chunk.is_last:
            return
