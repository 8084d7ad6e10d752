"""Jobs that stand still: all their processes, whoever of us is killed, until they go on or end."""

import asyncio
import signal
from dataclasses import replace

from tests.integration.engines.box import Box, kill, kill_and_wait, until_true
from tgpu.engines.api import AttemptKey, Launch, Phase, PreemptionNotice
from tgpu.engines.local.engine import LocalEngine
from tgpu.engines.local.processes import read_process

KEY = AttemptKey("j", 1)
# A command with a child in a session of its own, both of which count.
COUNTS = (
    "trap 'echo term >> $WORK/got; exit 4' TERM; trap 'echo usr1 >> $WORK/got' USR1; "
    "setsid sh -c 'while :; do echo x >> $WORK/child; sleep 0.02; done' & "
    "while :; do echo x >> $WORK/main; sleep 0.02; done"
)


async def up(box: Box, launch: Launch | None = None) -> LocalEngine:
    engine = await box.engine()
    await engine.launch([launch or box.shell("j", COUNTS)])
    await box.running(engine, "j")
    await until_true(lambda: box.lines("main") and box.lines("child"), "both to count")
    return engine


def stands_still(box: Box) -> bool:
    """One that starts another by vfork waits in the kernel (D) until that has begun."""
    found = [read_process(pid) for pid in box.job_processes()]
    states = {process.state for process in found if process is not None and not process.is_over}
    return "T" in states and states <= {"T", "D"}


async def paused(box: Box, engine: LocalEngine) -> None:
    await engine.pause([KEY], paused=True)
    await until_true(lambda: stands_still(box), "all of it to stand still")


async def goes_on(box: Box) -> None:
    for file in ("main", "child"):
        before = len(box.lines(file))
        await until_true(lambda f=file, n=before: len(box.lines(f)) > n, f"{file} to go on")  # type: ignore[misc]  # bound here


async def test_all_of_it_stands_still_and_goes_on(box: Box) -> None:
    engine = await up(box)
    await paused(box, engine)
    await engine.pause([KEY], paused=True)  # told twice
    before = len(box.lines("main")), len(box.lines("child"))
    await asyncio.sleep(0.1)
    assert (len(box.lines("main")), len(box.lines("child"))) == before
    assert (await box.running(engine, "j")).phase is Phase.RUNNING
    await engine.pause([KEY], paused=False)
    await goes_on(box)


async def test_the_workers_of_a_gang_stand_still(box: Box) -> None:
    engine = await up(box, replace(box.shell("j", COUNTS), workers=({}, {})))
    await paused(box, engine)
    await engine.pause([KEY], paused=False)
    await goes_on(box)


async def test_a_pause_outlives_the_supervisor_and_so_does_its_end(box: Box) -> None:
    engine = await up(box)
    await paused(box, engine)
    assert engine.supervisor_pid is not None
    await kill_and_wait(engine.supervisor_pid)
    await box.running(engine, "j")
    # As if the one before had been killed before it told all of them.
    for pid in box.job_processes():
        kill(pid, signal.SIGCONT)
    assert engine.supervisor_pid is not None
    await kill_and_wait(engine.supervisor_pid)
    await until_true(lambda: stands_still(box), "all of it to stand still again")
    await box.running(engine, "j")
    await engine.pause([KEY], paused=False)
    await goes_on(box)


async def test_one_whose_runner_is_killed_too_can_go_on(box: Box) -> None:
    engine = await up(box)
    await paused(box, engine)
    assert engine.supervisor_pid is not None
    await kill_and_wait(engine.supervisor_pid, box.runner_of("j"))
    await box.running(engine, "j")
    await engine.pause([KEY], paused=False)
    await goes_on(box)


async def test_it_is_woken_to_end(box: Box) -> None:
    engine = await up(box)
    await paused(box, engine)
    await engine.stop([KEY])
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause) == (4, "stopped")
    assert box.lines("got") == ["term"]
    assert not box.job_processes()


async def test_it_is_woken_to_save_its_work(box: Box) -> None:
    engine = await up(box)
    await paused(box, engine)
    await engine.stop([KEY], PreemptionNotice(signal.SIGUSR1, 600_000))
    await until_true(lambda: box.lines("got") == ["usr1"], "the signal")
    await engine.stop([KEY])
    assert (await box.end(engine, "j")).exit_code == 4


async def test_its_time_limit_goes_on(box: Box) -> None:
    engine = await up(box, box.shell("j", COUNTS, time_limit_ms=1000))
    await paused(box, engine)
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause) == (4, "time_limit")


async def test_what_is_over_or_not_known_is_passed_over(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.shell("j", "true")])
    await box.end(engine, "j")
    await engine.pause([KEY, AttemptKey("other", 1)], paused=True)
    await engine.pause([KEY], paused=False)
    assert [seen.key.job_id for seen in await engine.observe()] == ["j"]
