"""Waits for what other tasks bring about, with a bound instead of a guess."""

import asyncio
import time
from collections.abc import Awaitable, Callable


async def eventually(
    is_so: Callable[[], object | Awaitable[object]], what: str = "it", seconds: float = 5.0
) -> None:
    """Return once `is_so()` is true; fail when it has not become so in time."""
    deadline = time.monotonic() + seconds
    while True:
        found = is_so()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds} s"
        await asyncio.sleep(0.005)
