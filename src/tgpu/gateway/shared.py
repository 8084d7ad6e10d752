"""What gateways share in Redis: the generation, cached answers, rate limits.

The generation is a number that every change raises. Answers are cached under the generation that
was read before the service was asked, so that no answer from before a change is used after it.
"""

import contextlib
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final, cast

from tgpu.gateway.breaker import Away, RedisBreaker
from tgpu.gateway.joined import Joined

if TYPE_CHECKING:  # an extra: a gateway that shares nothing needs none
    from redis.asyncio import Redis

# On one network an answer takes a millisecond; who waits longer is better off without.
_ANSWER_SECONDS: Final = 0.5

# A generation never comes back, even if Redis forgets everything: it begins at the microsecond.
RAISE_GENERATION: Final = """
local function raise(key)
  if redis.call('EXISTS', key) == 1 then return redis.call('INCR', key) end
  local now = redis.call('TIME')
  local first = now[1] .. string.format('%06d', now[2])
  redis.call('SET', key, first)
  return first
end
"""
_BUMP: Final = RAISE_GENERATION + "return raise(KEYS[1])"

# A bucket of `burst` tokens, refilled at `rate` a second; the answer is the seconds to wait.
_TAKE: Final = """
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(bucket[1]) or burst
local at = tonumber(bucket[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - at) * rate)
local wait = 0
if tokens >= 1 then tokens = tokens - 1 else wait = (1 - tokens) / rate end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.9f', tokens),
           'at', string.format('%.6f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(burst / rate * 1000) + 1000)
return string.format('%.6f', wait)
"""


def connect(url: str, answer_seconds: float = _ANSWER_SECONDS) -> "Redis":
    """ValueError for an address that is none. Nothing is sent before the first call."""
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    # No retries of its own: the breaker decides when it is asked again.
    return Redis.from_url(
        url,
        socket_connect_timeout=_ANSWER_SECONDS,
        socket_timeout=answer_seconds,
        retry=Retry(NoBackoff(), 0),
        retry_on_error=[],
    )


def make_breaker(redis: "Redis") -> RedisBreaker:
    from redis.exceptions import RedisError

    async def forget_connections() -> None:
        # Those to a Redis that died would fail one by one after it is back.
        await redis.connection_pool.disconnect(inuse_connections=False)

    # A TimeoutError is an OSError.
    return RedisBreaker((RedisError, OSError), on_failure=forget_connections)


class Shared:
    """Every call raises Away while Redis cannot be asked."""

    def __init__(self, redis: "Redis", breaker: RedisBreaker, prefix: str = "tgpu:") -> None:
        self._redis = redis
        self._breaker = breaker
        self._prefix = prefix
        self.generation_key = f"{prefix}generation"
        self._generations = Joined(self._read_generation)
        self._owes_bump = False
        self._bump = redis.register_script(_BUMP)
        self._take = redis.register_script(_TAKE)

    @property
    def is_away(self) -> bool:
        return self._breaker.is_away

    async def generation(self) -> int:
        """Read after it was asked for; those who ask at the same time share one reading."""
        return await self._generations.get()

    async def bump(self) -> None:
        """Something changed. What could not be said is made up for when Redis is back.

        Other gateways may reach Redis while we think that it is away, and would show their callers
        what was before: so it is tried whatever we think, and a second time over a new connection.
        """
        with contextlib.suppress(Away):
            await self._raise_generation(insist=True)
            return
        await self._raise_generation(insist=True)

    async def get(self, key: str) -> tuple[bytes, float] | None:
        """A cached answer, and the seconds it still holds."""

        async def ask() -> list[Any]:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.get(self._prefix + key)
                pipe.pttl(self._prefix + key)
                return await pipe.execute()

        value, milliseconds = await self._breaker.call(ask)
        return None if value is None else (bytes(value), max(0, int(milliseconds)) / 1000)

    async def put(self, key: str, value: bytes, seconds: float) -> None:
        milliseconds = max(1, round(seconds * 1000))
        await self._breaker.call(
            lambda: self._redis.set(self._prefix + key, value, px=milliseconds)
        )

    async def take(self, caller: str, rate: float, burst: int) -> float:
        """Take one request out of the caller's bucket; the seconds to wait where it is empty."""
        key = f"{self._prefix}rate:{caller}"
        found = await self._breaker.call(
            lambda: cast(Awaitable[bytes], self._take(keys=[key], args=[rate, burst]))
        )
        return float(found)

    async def close(self) -> None:
        await self._redis.aclose()

    async def _read_generation(self) -> int:
        if self._owes_bump:
            self._owes_bump = False
            return await self._raise_generation()
        found = await self._breaker.call(lambda: self._redis.get(self.generation_key))
        return await self._raise_generation() if found is None else int(found)

    async def _raise_generation(self, *, insist: bool = False) -> int:
        try:
            found = await self._breaker.call(
                lambda: cast(Awaitable[bytes], self._bump(keys=[self.generation_key])),
                insist=insist,
            )
        except Away:
            self._owes_bump = True
            raise
        return int(found)
