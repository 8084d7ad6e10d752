"""Redis may go away: one failed call, and nobody asks it again for a few seconds."""

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from tgpu.breaker import CLOSED, BreakerRules

_log = structlog.get_logger("gpu_scheduler.gateway")

T = TypeVar("T")

_RULES: Final = BreakerRules(failures=1, retry_ms=2_000)


class Away(Exception):
    """Redis cannot be asked now; the gateway goes on without it."""


class RedisBreaker:
    """Shared by all calls to one Redis. Logs when it goes and when it comes back, once each."""

    def __init__(
        self,
        failures: tuple[type[Exception], ...] = (OSError,),
        rules: BreakerRules = _RULES,
        clock: Callable[[], float] = time.monotonic,
        on_failure: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._failures = failures
        self._on_failure = on_failure
        self._rules = rules
        self._clock = clock
        self._breaker = CLOSED

    @property
    def is_away(self) -> bool:
        return not self._breaker.is_closed

    async def call(self, ask: Callable[[], Awaitable[T]], *, insist: bool = False) -> T:
        """What `ask` brings. Raises Away where it fails, and at once where it lately did.

        With `insist` it is asked all the same.
        """
        if not insist:
            if not self._breaker.may_call(self._now_ms(), self._rules):
                raise Away
            self._breaker = self._breaker.called()
        try:
            answer = await ask()
        except self._failures as error:
            self._fail(error)
            if self._on_failure is not None:
                await self._on_failure()
            raise Away from error
        except BaseException:  # cancelled, or a bug: Redis is neither back nor away for it
            if not insist:
                self._breaker = self._breaker.given_up()
            raise
        if self.is_away:
            self._breaker = CLOSED
            _log.info("redis is back")
        return answer

    def _fail(self, error: Exception) -> None:
        was_away = self.is_away
        self._breaker = self._breaker.failed(self._now_ms(), str(error), self._rules)
        if not was_away:
            _log.warning("redis is down; continuing without it", problem=str(error))

    def _now_ms(self) -> int:
        return round(self._clock() * 1000)
