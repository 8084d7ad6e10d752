"""Merges identical concurrent requests into one, whose answer is never older than the request."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Joined(Generic[T]):
    """Who asks while a call is under way shares the next one: this one may have looked already."""

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self._call = call
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        if self._next is None:
            self._next = asyncio.create_task(self._run(self._running))
            self._next.add_done_callback(_look_at)
        # One who goes away must not take the answer from the others.
        return await asyncio.shield(self._next)

    async def _run(self, before: asyncio.Task[T] | None) -> T:
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        return await self._call()


def _look_at(task: asyncio.Task[T]) -> None:
    """So that nobody complains of an error that all who waited for have left."""
    if not task.cancelled():
        task.exception()
