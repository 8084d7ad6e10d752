"""Several things at once, until the first of them ends."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first_of(*works: Coroutine[Any, Any, object]) -> None:
    """Until one of them ends; the others are cancelled. Raises what it raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
