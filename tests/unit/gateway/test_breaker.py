"""Redis that goes and comes back."""

import asyncio

import pytest

from tgpu.breaker import BreakerRules
from tgpu.gateway.breaker import Away, RedisBreaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Redis:
    def __init__(self) -> None:
        self.asked = 0
        self.is_dead = False

    async def ask(self) -> str:
        self.asked += 1
        if self.is_dead:
            raise ConnectionError("refused")
        return "answer"


async def test_after_a_failure_it_is_left_alone_for_a_while() -> None:
    redis, clock = Redis(), Clock()
    breaker = RedisBreaker(rules=BreakerRules(failures=1, retry_ms=2_000), clock=clock)
    redis.is_dead = True
    for _ in range(3):
        with pytest.raises(Away):
            await breaker.call(redis.ask)
    assert (redis.asked, breaker.is_away) == (1, True)
    with pytest.raises(Away):
        await breaker.call(redis.ask, insist=True)
    assert redis.asked == 2


async def test_it_is_found_again_by_itself() -> None:
    redis, clock = Redis(), Clock()
    breaker = RedisBreaker(rules=BreakerRules(failures=1, retry_ms=2_000), clock=clock)
    redis.is_dead = True
    with pytest.raises(Away):
        await breaker.call(redis.ask)
    redis.is_dead = False
    clock.now += 2
    assert await breaker.call(redis.ask) == "answer"
    assert not breaker.is_away


async def test_bugs_are_not_taken_for_an_outage() -> None:
    async def bug() -> None:
        raise KeyError("bug")

    breaker = RedisBreaker()
    with pytest.raises(KeyError):
        await breaker.call(bug)
    assert not breaker.is_away


async def test_one_call_tries_whether_it_is_back_and_the_others_do_not_wait_for_it() -> None:
    redis, clock, answered = Redis(), Clock(), asyncio.Event()
    breaker = RedisBreaker(clock=clock)
    redis.is_dead = True
    with pytest.raises(Away):
        await breaker.call(redis.ask)
    clock.now += 2
    trying = asyncio.create_task(breaker.call(answered.wait))
    await asyncio.sleep(0)
    with pytest.raises(Away):
        await breaker.call(redis.ask)
    assert redis.asked == 1
    answered.set()
    assert await trying
    assert not breaker.is_away


async def test_a_try_that_nobody_awaits_any_longer_leaves_it_to_the_next() -> None:
    redis, clock = Redis(), Clock()
    breaker = RedisBreaker(clock=clock)
    redis.is_dead = True
    with pytest.raises(Away):
        await breaker.call(redis.ask)
    redis.is_dead = False
    clock.now += 2
    trying = asyncio.create_task(breaker.call(asyncio.Event().wait))
    await asyncio.sleep(0)
    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying
    assert breaker.is_away
    assert await breaker.call(redis.ask) == "answer"
