"""What the fake engine does beyond the contract: it obeys the test."""

import pytest

from tgpu.engines.api import AttemptKey, EngineUnavailable, Launch, Observation, Phase
from tgpu.engines.fake import FakeEngine

_KEY = AttemptKey("j", 1)
_LAUNCH = Launch(_KEY, ("true",), "/", {})


async def _opened(engine: FakeEngine) -> FakeEngine:
    await engine.open()
    return engine


async def test_an_attempt_waits_for_its_start_if_the_test_wants_so() -> None:
    engine = await _opened(FakeEngine(clock=lambda: 7, starts=False))
    await engine.launch([_LAUNCH])
    assert await engine.observe() == []
    engine.start(_KEY)
    assert await engine.observe() == [Observation(_KEY, Phase.RUNNING, 7, 1001, started_at=7)]


async def test_an_attempt_stopped_before_its_start_never_starts() -> None:
    engine = await _opened(FakeEngine(clock=lambda: 7, starts=False))
    await engine.launch([_LAUNCH])
    await engine.stop([_KEY])
    [seen] = await engine.observe()
    assert (seen.phase, seen.cause, seen.retry) == (Phase.NOT_STARTED, "stopped", False)


async def test_an_attempt_can_take_its_time_to_stop() -> None:
    engine = await _opened(FakeEngine(stops=False))
    await engine.launch([_LAUNCH])
    await engine.stop([_KEY])
    assert [seen.phase for seen in await engine.observe()] == [Phase.RUNNING]
    assert engine.stopped == [_KEY]


async def test_a_lost_attempt_is_told_with_its_cause() -> None:
    engine = await _opened(FakeEngine())
    await engine.launch([_LAUNCH])
    engine.lose(_KEY, "the machine was rebooted")
    [seen] = await engine.observe()
    assert (seen.phase, seen.cause) == (Phase.LOST, "the machine was rebooted")


async def test_a_broken_engine_is_unavailable_and_tells_everything_once_it_is_back() -> None:
    engine = await _opened(FakeEngine())
    await engine.launch([_LAUNCH])
    changes = engine.changes()
    before = await anext(changes)
    engine.break_down()
    with pytest.raises(EngineUnavailable):
        await engine.observe()
    engine.recover()
    assert await anext(changes) == before


async def test_only_what_runs_can_finish() -> None:
    engine = await _opened(FakeEngine())
    with pytest.raises(AssertionError, match="not running"):
        engine.finish(_KEY)
