"""Reads files that jobs can tamper with, in separate threads.

A file can be made that never answers (a file system of the user's own, a hung disk). Whoever reads
it is let go after a while, its thread is given up, and others go on with another: no other work
shares these threads, one job has few of them, and the service's end does not wait for them.
"""

import asyncio
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_THREADS: Final = 8
_FOR_ONE_JOB: Final = 2
_SECONDS: Final = 10.0
# Threads that hang in a read cannot be ended. With as many of them nothing is read any more.
_MOST_GIVEN_UP: Final = 64


class ReadTimedOut(Exception):
    """The file does not answer, or those before it in the line did not."""


class _Task:
    __slots__ = ("answer", "function", "given_up", "job_id", "leaves_at", "loop", "overdue")

    def __init__(self, job_id: str, function: Callable[[], Any], seconds: float) -> None:
        self.job_id = job_id
        self.function = function
        self.loop = asyncio.get_running_loop()
        # A little before its caller does: who waited for as long as that is not begun at all, or
        # reads that hang would come into the place of those given up in the same instant.
        self.leaves_at = self.loop.time() + seconds * 0.95
        self.answer: asyncio.Future[Any] = self.loop.create_future()
        self.given_up = False
        self.overdue: asyncio.TimerHandle | None = None

    def is_in_vain(self) -> bool:
        """Nobody waits for it any more, or will when it has begun."""
        return self.answer.done() or self.loop.time() >= self.leaves_at


_Tasks = queue.SimpleQueue[_Task]  # of one thread: never more than one in it


class FileReads:
    """Used from one event loop."""

    def __init__(
        self, threads: int = _THREADS, for_one_job: int = _FOR_ONE_JOB, seconds: float = _SECONDS
    ) -> None:
        self._most = threads
        self._for_one_job = for_one_job
        self._seconds = seconds
        self._running = 0  # those given up not counted
        self._by_job: Counter[str] = Counter()  # under way, those given up included
        self._given_up: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Task]] = {}  # by job: jobs take turns, not callers
        self._idle: list[_Tasks] = []

    @property
    def stuck(self) -> int:
        """How many reads do not come back."""
        return self._given_up.total()

    async def read(self, job_id: str, function: Callable[[], T]) -> T:
        """What the function returns or raises. ReadTimedOut where that takes too long."""
        if self._given_up[job_id] >= self._for_one_job or self.stuck >= _MOST_GIVEN_UP:
            raise ReadTimedOut("earlier reads of it still hang")
        task = _Task(job_id, function, self._seconds)
        self._waiting.setdefault(job_id, deque()).append(task)
        self._start()
        try:
            async with asyncio.timeout(self._seconds):
                answer: T = await task.answer
                return answer
        except TimeoutError:
            raise ReadTimedOut(f"it did not answer within {self._seconds:g} s") from None

    def _start(self) -> None:
        for job_id in list(self._waiting):
            if self._running >= self._most:
                return
            tasks = self._waiting.pop(job_id)
            while tasks and tasks[0].is_in_vain():
                tasks.popleft()
            if tasks and self._by_job[job_id] < self._for_one_job:
                self._begin(tasks.popleft())
            if tasks:
                self._waiting[job_id] = tasks  # at the end: others first

    def _begin(self, task: _Task) -> None:
        self._running += 1
        self._by_job[task.job_id] += 1
        task.overdue = task.loop.call_later(self._seconds, self._give_up, task)
        if self._idle:
            self._idle.pop().put(task)
            return
        tasks: _Tasks = queue.SimpleQueue()
        tasks.put(task)
        # A daemon: the interpreter does not wait for it when it ends, as it would for a pool's.
        threading.Thread(target=self._serve, args=(tasks,), name="file-read", daemon=True).start()

    def _give_up(self, task: _Task) -> None:
        task.given_up = True
        self._given_up[task.job_id] += 1
        self._running -= 1  # another thread takes its place
        self._start()

    def _came_back(
        self, task: _Task, tasks: _Tasks, answer: object, error: Exception | None
    ) -> None:
        assert task.overdue is not None
        task.overdue.cancel()
        self._idle.append(tasks)
        self._by_job = self._by_job - Counter([task.job_id])
        if task.given_up:
            self._given_up = self._given_up - Counter([task.job_id])
        else:
            self._running -= 1
        if not task.answer.done():
            if error is None:
                task.answer.set_result(answer)
            else:
                task.answer.set_exception(error)
        self._start()

    def _serve(self, tasks: _Tasks) -> None:
        while True:
            task = tasks.get()
            answer, error = None, None
            try:
                answer = task.function()
            except Exception as raised:  # handed to whoever asked
                error = raised
            try:
                task.loop.call_soon_threadsafe(self._came_back, task, tasks, answer, error)
            except RuntimeError:  # the loop is closed: the service has ended
                return
