"""Redis may go away: one failed call, and nobody asks it again for a few seconds."""

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

_log = structlog.get_logger("gpu_scheduler.gateway")

T = TypeVar("T")

RETRY_SECONDS: Final = 2.0


class Away(Exception):
    """Redis cannot be asked now; the gateway goes on without it."""


class RedisBreaker:
    """Shared by all calls to one Redis. Logs when it goes and when it comes back, once each."""

    def __init__(
        self,
        failures: tuple[type[Exception], ...] = (OSError,),
        retry_seconds: float = RETRY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        on_failure: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._failures = failures
        self._on_failure = on_failure
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._shut_until = 0.0
        self.is_away = False

    async def call(self, ask: Callable[[], Awaitable[T]], *, insist: bool = False) -> T:
        """What `ask` brings. Raises Away where it fails, and at once where it lately did.

        With `insist` it is asked all the same.
        """
        if self.is_away and self._clock() < self._shut_until and not insist:
            raise Away
        try:
            answer = await ask()
        except self._failures as error:
            self._fail(error)
            if self._on_failure is not None:
                await self._on_failure()
            raise Away from error
        if self.is_away:
            self.is_away = False
            _log.info("redis is back")
        return answer

    def _fail(self, error: Exception) -> None:
        self._shut_until = self._clock() + self._retry_seconds
        if not self.is_away:
            self.is_away = True
            _log.warning("redis is down; continuing without it", problem=str(error))
