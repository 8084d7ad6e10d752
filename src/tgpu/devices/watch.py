"""Reads a provider without blocking the event loop, and survives a driver that hangs or fails.

A driver that fails several times in a row is left alone (`breaker.py`): what it said last is
what there is, marked as stale, until one of the tries now and then works again.
"""

import asyncio
import contextlib
import queue
import threading
import time
from dataclasses import dataclass, field, replace

from tgpu.breaker import CLOSED, BreakerRules
from tgpu.core.model.units import SECOND
from tgpu.devices.api import STALE, GPUProvider, InstantProvider, Snapshot

_RULES = BreakerRules()


@dataclass(slots=True, eq=False)
class _Call:
    """One read of the provider, which several callers may await."""

    deadline: float  # on the monotonic clock; past it the driver counts as slow
    answer: Snapshot | None = None
    waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = field(default_factory=list)


class DeviceWatch:
    """At most one call is in the provider at any time, in one thread that can be left behind.

    A call that hangs holds its thread; a new one per read would pile up hung threads for as long
    as the driver is ill. Cancelling is no way out: nothing can interrupt a driver call.
    """

    def __init__(
        self,
        provider: GPUProvider,
        timeout_seconds: float = 5.0,
        rules: BreakerRules = _RULES,
    ) -> None:
        self._provider = provider
        self._timeout_seconds = timeout_seconds
        self._rules = rules
        self._lock = threading.Lock()
        self._last: Snapshot | None = None
        self._good: Snapshot | None = None  # the newest with nothing wrong with the driver
        self._call: _Call | None = None  # the one that is out
        self._closed = False
        self.breaker = CLOSED
        self._requests: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        # A daemon: the interpreter must be able to exit while the driver hangs.
        self._thread = threading.Thread(target=self._serve, name="device-watch", daemon=True)
        self._thread.start()

    @property
    def last(self) -> Snapshot | None:
        """The newest answer of the provider; None before the first."""
        return self._last

    def at_once(self) -> Snapshot | None:
        """A fresh snapshot where that takes no call; None where `read` must be awaited."""
        if self._call is not None or not self.breaker.is_closed:
            return None
        if not isinstance(self._provider, InstantProvider):
            return None
        return self._provider.at_once()

    async def read(self) -> Snapshot:
        """A fresh snapshot, or the last good one with a `problem` when the driver fails.

        Waits for the time-out once per hung call: while it stays out, later reads return at once.
        """
        joined = self._join_call()
        if joined is None:
            return self._stale()
        call, answered = joined
        remaining = call.deadline - time.monotonic()
        if remaining > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await answered.wait()
        if call.answer is None:
            with self._lock:
                self._fail(f"slow: no answer from the driver in {self._timeout_seconds:g} s")
            return self._stale()
        return self._stale() if _has_failed(call.answer) else call.answer

    def close(self) -> None:
        """Ends the thread and closes the provider, as soon as the driver lets go; does not wait."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._requests.put(None)

    def _join_call(self) -> tuple[_Call, asyncio.Event] | None:
        """None where the breaker allows no call, and none is out that could be waited for."""
        answered = asyncio.Event()
        with self._lock:
            if self._closed:
                raise RuntimeError("this DeviceWatch is closed")
            if self._call is None:
                if not self.breaker.may_call(_now_ms(), self._rules):
                    return None
                self.breaker = self.breaker.called()
                self._call = _Call(time.monotonic() + self._timeout_seconds)
                self._requests.put(self._call)
            if time.monotonic() < self._call.deadline:
                self._call.waiters.append((asyncio.get_running_loop(), answered))
            return self._call, answered

    def _stale(self) -> Snapshot:
        """The last good reading with what is wrong; once the breaker is open, on every GPU."""
        with self._lock:
            breaker, good, last = self.breaker, self._good, self._last
        if good is None:  # it never worked: all there is are its own words
            given = last or Snapshot(self._provider.name, ())
            return replace(given, problem=breaker.problem or given.problem)
        if breaker.is_closed:
            return replace(good, problem=breaker.problem)
        problem = f"{STALE}{breaker.problem}"
        gpus = tuple(gpu if gpu.problem else replace(gpu, problem=problem) for gpu in good.gpus)
        tries = f"tried again every {self._rules.retry_ms / SECOND:g} s"
        return replace(good, gpus=gpus, problem=f"{breaker.problem}; {tries}, no new jobs start")

    def _fail(self, problem: str) -> None:
        self.breaker = self.breaker.failed(_now_ms(), problem, self._rules)

    # The thread.

    def _serve(self) -> None:
        while (call := self._requests.get()) is not None:
            answer = self._read_provider()
            with self._lock:
                self._last = call.answer = answer
                self._call = None
                if _has_failed(answer):
                    self._fail(str(answer.problem))
                else:
                    self._good, self.breaker = answer, CLOSED
            for loop, answered in call.waiters:
                with contextlib.suppress(RuntimeError):  # that loop was closed meanwhile
                    loop.call_soon_threadsafe(answered.set)
        self._provider.close()

    def _read_provider(self) -> Snapshot:
        try:
            return self._provider.read()
        except Exception as error:
            # A provider must not raise; one that does must not silence the watch for good.
            problem = f"failed: {type(error).__name__}: {error}"
            gpus = self._last.gpus if self._last is not None else ()
            there = tuple(gpu.unmeasured(problem) for gpu in gpus)
            return Snapshot(self._provider.name, there, problem)


def _has_failed(answer: Snapshot) -> bool:
    """The driver as a whole; a note on a reading that is there all the same is no failure."""
    return answer.problem is not None and all(gpu.problem for gpu in answer.gpus)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
