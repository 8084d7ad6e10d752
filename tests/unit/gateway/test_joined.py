"""One call for many who ask."""

import asyncio

from tgpu.gateway.joined import Joined


async def test_nobody_gets_an_answer_that_was_begun_before_the_question() -> None:
    begun = 0
    gate = asyncio.Event()

    async def look() -> int:
        nonlocal begun
        begun += 1
        number = begun
        await gate.wait()
        return number

    joined = Joined(look)
    first = asyncio.create_task(joined.get())
    while not begun:
        await asyncio.sleep(0)
    later = [asyncio.create_task(joined.get()) for _ in range(5)]
    await asyncio.sleep(0)
    gate.set()
    assert await first == 1
    assert await asyncio.gather(*later) == [2] * 5


async def test_an_error_reaches_all_and_is_forgotten() -> None:
    asked = 0

    async def look() -> int:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise OSError("away")
        return asked

    joined = Joined(look)
    results = await asyncio.gather(*(joined.get() for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [OSError] * 3
    assert await joined.get() == 2
