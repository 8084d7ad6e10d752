"""Reads a provider without blocking the event loop, and outlives a driver that hangs."""

import asyncio
import contextlib
import queue
import threading
import time
from dataclasses import dataclass, field, replace

from gpu_scheduler.devices.api import GPUProvider, Snapshot


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

    def __init__(self, provider: GPUProvider, timeout_seconds: float = 5.0) -> None:
        self._provider = provider
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._last: Snapshot | None = None
        self._call: _Call | None = None  # the one that is out
        self._closed = False
        self._requests: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        # A daemon: the interpreter must be able to exit while the driver hangs.
        self._thread = threading.Thread(target=self._serve, name="device-watch", daemon=True)
        self._thread.start()

    @property
    def last(self) -> Snapshot | None:
        """The newest answer of the provider; None before the first."""
        return self._last

    async def read(self) -> Snapshot:
        """A fresh snapshot, or the last one with a `problem` when the driver is slow.

        Waits for the time-out once per hung call: while it stays out, later reads return at once.
        """
        call, answered = self._join_call()
        remaining = call.deadline - time.monotonic()
        if remaining > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await answered.wait()
        return call.answer or self._slow()

    def close(self) -> None:
        """Ends the thread and closes the provider, as soon as the driver lets go; does not wait."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._requests.put(None)

    def _join_call(self) -> tuple[_Call, asyncio.Event]:
        answered = asyncio.Event()
        with self._lock:
            if self._closed:
                raise RuntimeError("this DeviceWatch is closed")
            if self._call is None:
                self._call = _Call(time.monotonic() + self._timeout_seconds)
                self._requests.put(self._call)
            if time.monotonic() < self._call.deadline:
                self._call.waiters.append((asyncio.get_running_loop(), answered))
            return self._call, answered

    def _slow(self) -> Snapshot:
        problem = f"slow: no answer from the driver in {self._timeout_seconds:g} s"
        return self._last_with(problem)

    def _last_with(self, problem: str) -> Snapshot:
        last = self._last or Snapshot(self._provider.name, ())
        return replace(last, problem=problem)

    # The thread.

    def _serve(self) -> None:
        while (call := self._requests.get()) is not None:
            answer = self._read_provider()
            with self._lock:
                self._last = call.answer = answer
                self._call = None
            for loop, answered in call.waiters:
                with contextlib.suppress(RuntimeError):  # that loop was closed meanwhile
                    loop.call_soon_threadsafe(answered.set)
        self._provider.close()

    def _read_provider(self) -> Snapshot:
        try:
            return self._provider.read()
        except Exception as error:
            # A provider must not raise; one that does must not silence the watch for good.
            return self._last_with(f"failed: {type(error).__name__}: {error}")
