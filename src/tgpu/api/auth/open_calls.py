"""Long calls and streams: they end when the caller's key, token or group is no longer valid."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

# Gives a sentence when a caller may not stay any longer. Asked often: it must cost next to nothing.
Lapse = Callable[[], str | None]
_LOOK_SECONDS: Final = 0.5


@dataclass(slots=True, eq=False)
class _Open:
    call: "asyncio.Task[Any]"
    lapse: Lapse
    sentence: str | None = None


class OpenCalls:
    """One look at all of them every half second, while there are any."""

    def __init__(self, seconds: float = _LOOK_SECONDS) -> None:
        self._seconds = seconds
        self._open: set[_Open] = set()
        self._looking: asyncio.Task[None] | None = None

    async def run(self, call: Coroutine[Any, Any, Any], lapse: Lapse) -> str | None:
        """Until it is over (None), or is ended: why, for its caller."""
        one = _Open(asyncio.create_task(call), lapse)
        self._open.add(one)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            await one.call
        except asyncio.CancelledError:
            if one.sentence is None:  # it is the one who waits that was cancelled
                one.call.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await one.call
                raise
        finally:
            self._open.discard(one)
        return one.sentence

    async def _look(self) -> None:
        while self._open:
            await asyncio.sleep(self._seconds)
            for one in list(self._open):
                if one.sentence is None and (sentence := one.lapse()) is not None:
                    one.sentence = sentence
                    one.call.cancel()
        self._looking = None
