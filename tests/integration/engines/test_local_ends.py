"""Ending a job ends all of it, however its processes try to stay."""

import pytest

from tests.integration.engines.box import Box, until_true
from tgpu.engines.api import AttemptKey, Phase

_IGNORES_TERM = "trap '' TERM; echo up; while :; do sleep 0.05; done"

_DOUBLE_FORK = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        open(os.environ["WORK"] + "/child", "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
time.sleep(600)
"""

_SETSID = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for fd in (0, 1, 2):
        os.close(fd)
    open(os.environ["WORK"] + "/child", "w").write(str(os.getpid()))
    time.sleep(600)
time.sleep(600)
"""

# Each generation forks the next into a session of its own and ends, so no list of its processes
# stays true.
_FORKS_ON = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(os.environ["WORK"] + "/child", "w").write("up")
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.002)
"""

# A tree that replaces every child that dies.
_FORKS_WIDE = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(5):
    if os.fork() == 0:
        while True:
            if os.fork() == 0:
                signal.pause()
            os.wait()
open(os.environ["WORK"] + "/child", "w").write("up")
while True:
    os.wait()
"""


async def test_stop_ends_a_job_by_term_and_says_so(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.launch("j", "sleep", "600")])
    await box.running(engine, "j")
    await engine.stop([AttemptKey("j", 1)])
    end = await box.end(engine, "j")
    assert (end.phase, end.exit_code, end.signal) == (Phase.EXITED, 143, 15)
    assert end.cause == "stopped"


async def test_a_job_that_tidies_up_on_term_keeps_its_exit_code(box: Box) -> None:
    engine = await box.engine()
    script = "trap 'echo saved; exit 7' TERM; echo up; while :; do sleep 0.02; done"
    await engine.launch([box.shell("j", script, grace_ms=10_000)])
    await until_true(lambda: (box.directory / "jobs/j/1/stdout.log").exists(), "the log")
    await until_true(lambda: "up" in box.text("j"), "the trap to be set")
    await engine.stop([AttemptKey("j", 1)])
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause, box.text("j")) == (7, "stopped", "up\nsaved\n")


async def test_a_job_that_ignores_term_is_killed_after_its_grace(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.shell("j", _IGNORES_TERM, grace_ms=400)])
    running = await box.running(engine, "j")
    await until_true(lambda: "up" in box.text("j"), "the trap to be set")
    await engine.stop([AttemptKey("j", 1)])
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause) == (137, "stopped")
    assert end.at - running.at >= 400
    assert box.job_processes() == {}


@pytest.mark.parametrize(
    "script",
    [_DOUBLE_FORK, _SETSID, _FORKS_ON, _FORKS_WIDE],
    ids=["double fork", "setsid", "forks on and on", "forks wide"],
)
async def test_stop_leaves_no_process_of_the_job(box: Box, script: str) -> None:
    engine = await box.engine()
    await engine.launch([box.python("j", script)])
    await until_true(lambda: box.lines("child"), "the job's child")
    await engine.stop([AttemptKey("j", 1)])
    end = await box.end(engine, "j")
    assert box.job_processes() == {}
    assert end.phase is Phase.EXITED


async def test_a_stopped_process_obeys_too(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.shell("j", "kill -STOP $$", grace_ms=60_000)])
    await box.running(engine, "j")
    await engine.stop([AttemptKey("j", 1)])
    assert (await box.end(engine, "j")).exit_code == 143


async def test_what_a_job_leaves_behind_ends_before_it_counts_as_exited(box: Box) -> None:
    engine = await box.engine()
    script = f"( {_IGNORES_TERM} ) & echo main; exit 4"
    await engine.launch([box.shell("j", script, grace_ms=200)])
    end = await box.end(engine, "j")
    assert (end.phase, end.exit_code, end.cause) == (Phase.EXITED, 4, None)
    assert box.job_processes() == {}


async def test_a_job_over_its_time_limit_is_ended_with_that_cause(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.launch("j", "sleep", "600", time_limit_ms=200)])
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause) == (143, "time_limit")
    assert end.started_at is not None
    assert end.at - end.started_at >= 200


async def test_a_stop_right_behind_a_launch_wins(box: Box) -> None:
    engine = await box.engine()
    names = [f"j{number}" for number in range(20)]
    for name in names:
        launch = box.shell(name, "sleep 0.5; echo ran >> $WORK/ran")
        await engine.launch([launch])
        await engine.stop([launch.key])
    for name in names:
        end = await box.end(engine, name)
        assert end.cause == "stopped"
        assert end.phase in (Phase.NOT_STARTED, Phase.EXITED)
    assert box.lines("ran") == []


async def test_stopping_what_is_over_changes_nothing(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.shell("j", "exit 2")])
    before = await box.end(engine, "j")
    await engine.stop([AttemptKey("j", 1)])
    assert await engine.observe() == [before]
