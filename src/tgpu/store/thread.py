"""A thread that talks to a database, so that the event loop never waits for one.

Whoever calls is answered in time, whatever the database does: a call that still waits for its turn
is dropped then, one that is under way goes on without them. The thread is a daemon, so that a call
that never returns cannot keep the process from ending.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from tgpu.store.api import StoreAway, StoreUnavailable

T = TypeVar("T")

# A read takes about a millisecond: whoever comes behind this many would wait too long anyway.
MOST_WAITING: Final = 5_000
READ_SECONDS: Final = 10.0
OPEN_SECONDS: Final = 600.0  # a migration of millions of rows
CLOSE_SECONDS: Final = 3.0


class _Call:
    def __init__(self, work: Callable[[], Any]) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.work = work
        self.is_dropped = False  # nobody waits for it any more

    def run(self) -> None:
        """In the thread."""
        try:
            answer, error = self.work(), None
        except BaseException as raised:  # whatever it is belongs to whoever called
            answer, error = None, raised
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            self.loop.call_soon_threadsafe(self._settle, answer, error)

    def _settle(self, answer: object, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(answer)
        else:
            self.future.set_exception(error)


class StoreThread:
    """Works off calls one after the other. `give_up` is told when one takes too long."""

    def __init__(self, name: str, store: str, give_up: Callable[[], None] | None = None) -> None:
        self._store = store
        self._give_up = give_up
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._waiting = 0
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def call(self, work: Callable[[], T], seconds: float | None = None) -> T:
        """What `work` returns or raises; StoreUnavailable where that takes too long."""
        if self._waiting >= MOST_WAITING:
            raise StoreUnavailable(
                f"{self._store} has {self._waiting} requests waiting: try again in a moment"
            )
        call = _Call(work)
        self._waiting += 1
        self._calls.put(call)
        try:
            async with asyncio.timeout(seconds):
                found: T = await call.future
            return found
        except TimeoutError:
            if self._give_up is not None:
                self._give_up()
            raise StoreAway(
                f"{self._store} has not answered for {seconds:g} s: check it, and try again in a"
                " moment"
            ) from None
        finally:
            call.is_dropped = True
            self._waiting -= 1

    def end(self) -> None:
        """Once the calls so far are done."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            if not call.is_dropped:
                call.run()
