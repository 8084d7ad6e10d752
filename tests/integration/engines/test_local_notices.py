"""Preempted attempts get a signal to save their work, then TERM, then KILL."""

import signal

from tests.integration.engines.box import Box, kill_and_wait, until_true
from tgpu.engines.api import AttemptKey, Phase, PreemptionNotice
from tgpu.engines.local.engine import LocalEngine

_KEY = AttemptKey("j", 1)
_LONG = PreemptionNotice(signal.SIGUSR1, 600_000)
_SAVES = (
    "trap 'echo usr1 >> $WORK/got' USR1; trap 'echo term >> $WORK/got; exit 4' TERM; "
    "echo x >> $WORK/up; while [ ! -e $WORK/go ]; do sleep 0.02; done"
)


async def up(box: Box, engine: LocalEngine, script: str = _SAVES, **options: int) -> None:
    await engine.launch([box.shell("j", script, **options)])
    await until_true(lambda: box.lines("up"), "the traps to be set")
    await box.running(engine, "j")


async def test_the_notice_comes_first_and_its_own_end_is_awaited(box: Box) -> None:
    engine = await box.engine()
    await up(box, engine)
    await engine.stop([_KEY], _LONG)
    await until_true(lambda: box.lines("got") == ["usr1"], "the signal")
    assert (await box.running(engine, "j")).phase is Phase.RUNNING
    (box.work / "go").touch()
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause) == (0, "stopped")
    assert box.lines("got") == ["usr1"]


async def test_term_follows_when_the_time_to_save_is_over(box: Box) -> None:
    engine = await box.engine()
    await up(box, engine, grace_ms=60_000)
    await engine.stop([_KEY], PreemptionNotice(signal.SIGUSR1, 200))
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause) == (4, "stopped")
    assert box.lines("got") == ["usr1", "term"]


async def test_kill_follows_term_where_neither_is_obeyed(box: Box) -> None:
    engine = await box.engine()
    stays = "trap '' USR1 TERM; echo x >> $WORK/up; while :; do sleep 0.05; done"
    await up(box, engine, stays, grace_ms=100)
    await engine.stop([_KEY], PreemptionNotice(signal.SIGUSR1, 100))
    assert (await box.end(engine, "j")).exit_code == 137


async def test_told_again_it_gets_no_second_notice(box: Box) -> None:
    engine = await box.engine()
    await up(box, engine)
    for _ in range(3):
        await engine.stop([_KEY], _LONG)
    await until_true(lambda: box.lines("got"), "the signal")
    (box.work / "go").touch()
    await box.end(engine, "j")
    assert box.lines("got") == ["usr1"]


async def test_cancelled_while_it_saves_it_gets_term_at_once(box: Box) -> None:
    engine = await box.engine()
    await up(box, engine, grace_ms=60_000)
    await engine.stop([_KEY], _LONG)
    await until_true(lambda: box.lines("got") == ["usr1"], "the signal")
    await engine.stop([_KEY])
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause) == (4, "stopped")


async def test_only_the_command_gets_the_notice_not_its_helpers(box: Box) -> None:
    engine = await box.engine()
    # The helper would die of USR1; the command would see that.
    script = (
        "sleep 600 & helper=$!; trap 'saved=1' USR1; echo x >> $WORK/up; "
        'while [ -z "$saved" ]; do sleep 0.02; done; kill -0 $helper && exit 6; exit 1'
    )
    await up(box, engine, script)
    await engine.stop([_KEY], _LONG)
    assert (await box.end(engine, "j")).exit_code == 6
    assert box.job_processes() == {}


async def test_a_supervisor_that_comes_after_goes_on_with_the_notice(box: Box) -> None:
    engine = await box.engine()
    await up(box, engine)
    await engine.stop([_KEY], _LONG)
    await until_true(lambda: box.lines("got") == ["usr1"], "the signal")
    assert engine.supervisor_pid is not None
    await kill_and_wait(engine.supervisor_pid)
    assert (await box.running(engine, "j")).phase is Phase.RUNNING
    (box.work / "go").touch()
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause) == (0, "stopped")
    assert "term" not in box.lines("got")


async def test_one_that_has_ended_by_itself_was_not_stopped(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.shell("j", "exit 0")])
    await box.end(engine, "j")
    await engine.stop([_KEY], _LONG)
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause) == (0, None)
