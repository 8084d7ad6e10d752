"""A gang on the local engine: its command runs once for each worker, as one attempt."""

import re
import signal
import subprocess
import sys
from dataclasses import replace

from tests.integration.engines.box import Box, kill, kill_and_wait, until_true
from tgpu.engines.api import AttemptKey, Launch, Phase, PreemptionNotice

_KEY = AttemptKey("g", 1)
_WAITS = "trap 'exit 0' TERM; echo $RANK >> $WORK/up; while :; do sleep 0.02; done"


def a_gang(box: Box, script: str, size: int = 3, grace_ms: int = 10_000) -> Launch:
    places = tuple({"RANK": str(rank), "CUDA_VISIBLE_DEVICES": str(rank)} for rank in range(size))
    return replace(box.shell("g", script, grace_ms=grace_ms), workers=places)


async def test_each_worker_runs_the_command_with_its_own_variables_and_one_port(box: Box) -> None:
    engine = await box.engine()
    script = "echo $RANK:$CUDA_VISIBLE_DEVICES:$MASTER_PORT"
    await engine.launch([a_gang(box, script)])
    end = await box.end(engine, "g")
    assert (end.phase, end.exit_code) == (Phase.EXITED, 0)
    lines = sorted(box.text("g").split())
    assert [line.rpartition(":")[0] for line in lines] == ["0:0", "1:1", "2:2"]
    (port,) = {line.rpartition(":")[2] for line in lines}
    assert 1024 <= int(port) <= 65535


async def test_a_port_that_the_owner_chose_is_kept(box: Box) -> None:
    engine = await box.engine()
    launch = a_gang(box, "echo $MASTER_PORT", size=2)
    launch = replace(launch, env={**launch.env, "MASTER_PORT": "29500"})
    await engine.launch([launch])
    await box.end(engine, "g")
    assert box.text("g") == "29500\n29500\n"


async def test_the_first_failure_ends_all_and_is_the_gang_s(box: Box) -> None:
    engine = await box.engine()
    script = (
        f"if [ $RANK = 1 ]; then while [ ! -e $WORK/go ]; do sleep 0.02; done; exit 5; fi; {_WAITS}"
    )
    await engine.launch([a_gang(box, script)])
    await until_true(lambda: sorted(box.lines("up")) == ["0", "2"], "the others to be up")
    (box.work / "go").touch()
    end = await box.end(engine, "g")
    assert (end.exit_code, end.cause) == (5, None)
    assert box.job_processes() == {}
    assert "worker 1 ended with exit code 5" in box.text("g", "stderr.log")


async def test_a_worker_that_ignores_term_is_killed_when_another_has_failed(box: Box) -> None:
    engine = await box.engine()
    stays = "trap '' TERM; echo $RANK >> $WORK/up; while :; do sleep 0.05; done"
    script = (
        f"[ $RANK = 0 ] || {{ {stays}; }}; while [ ! -e $WORK/up ]; do sleep 0.02; done; exit 3"
    )
    await engine.launch([a_gang(box, script, size=2, grace_ms=200)])
    assert (await box.end(engine, "g")).exit_code == 3
    assert box.job_processes() == {}


async def test_a_worker_killed_by_a_signal_fails_the_gang_as_in_a_shell(box: Box) -> None:
    engine = await box.engine()
    script = f"if [ $RANK = 2 ]; then kill -KILL $$; fi; {_WAITS}"
    await engine.launch([a_gang(box, script)])
    assert (await box.end(engine, "g")).exit_code == 137


async def test_a_command_that_is_not_there_fails_as_in_a_shell(box: Box) -> None:
    engine = await box.engine()
    launch = replace(box.launch("g", "no-such-program"), workers=({"RANK": "0"}, {"RANK": "1"}))
    await engine.launch([launch])
    assert (await box.end(engine, "g")).exit_code == 127
    assert "no-such-program: command not found" in box.text("g", "stderr.log")


async def test_stop_ends_every_worker_by_one_term(box: Box) -> None:
    engine = await box.engine()
    script = (
        "trap 'echo $RANK >> $WORK/terms' TERM; echo $RANK >> $WORK/up; "
        "while [ ! -e $WORK/go ]; do sleep 0.02; done"
    )
    await engine.launch([a_gang(box, script)])
    await until_true(lambda: len(box.lines("up")) == 3, "all workers to be up")
    await engine.stop([_KEY])
    await until_true(lambda: len(box.lines("terms")) >= 3, "TERM to arrive")
    (box.work / "go").touch()
    end = await box.end(engine, "g")
    assert end.cause == "stopped"
    assert sorted(box.lines("terms")) == ["0", "1", "2"]
    assert box.job_processes() == {}


async def test_when_its_launcher_is_killed_no_worker_is_left(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([a_gang(box, _WAITS)])
    await until_true(lambda: len(box.lines("up")) == 3, "all workers to be up")
    running = await box.running(engine, "g")
    assert running.pid is not None
    kill(running.pid)
    assert (await box.end(engine, "g")).exit_code == 137
    assert box.job_processes() == {}


async def test_a_gang_outlives_the_supervisor(box: Box) -> None:
    engine = await box.engine()
    script = "echo $RANK >> $WORK/up; while [ ! -e $WORK/go ]; do sleep 0.02; done; exit $RANK"
    await engine.launch([a_gang(box, script, size=2)])
    await until_true(lambda: len(box.lines("up")) == 2, "all workers to be up")
    assert engine.supervisor_pid is not None
    await kill_and_wait(engine.supervisor_pid)
    assert (await box.running(engine, "g")).phase is Phase.RUNNING
    (box.work / "go").touch()
    assert (await box.end(engine, "g")).exit_code == 1


async def test_lines_of_workers_are_never_mixed(box: Box) -> None:
    engine = await box.engine()
    # Half a line at a time, and many of them.
    script = (
        "import os, time\n"
        "rank = os.environ['RANK'].encode()\n"
        "for _ in range(200):\n"
        "    os.write(1, rank * 40); os.write(1, rank * 40 + b'\\n')\n"
        "os.write(1, b'last ' + rank)\n"
    )
    gang = replace(a_gang(box, ""), argv=box.python("g", script).argv)
    await engine.launch([gang])
    assert (await box.end(engine, "g")).exit_code == 0
    *lines, nothing = box.text("g").split("\n")
    assert (len(lines), nothing) == (603, "")
    assert all(re.fullmatch(r"0{80}|1{80}|2{80}|last [012]", line) for line in lines)


async def test_what_a_worker_leaves_behind_does_not_hold_the_gang_up(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([a_gang(box, "sleep 600 & echo done", size=2)])
    assert (await box.end(engine, "g")).exit_code == 0
    assert box.text("g") == "done\ndone\n"
    assert box.job_processes() == {}


async def test_a_notice_reaches_every_worker(box: Box) -> None:
    engine = await box.engine()
    script = (
        "trap 'echo $RANK >> $WORK/saved; exit 0' USR1; echo $RANK >> $WORK/up; "
        "while :; do sleep 0.02; done"
    )
    await engine.launch([a_gang(box, script)])
    await until_true(lambda: len(box.lines("up")) == 3, "all workers to be up")
    await engine.stop([_KEY], PreemptionNotice(signal.SIGUSR1, 60_000))
    end = await box.end(engine, "g")
    assert (end.exit_code, end.cause) == (0, "stopped")
    assert sorted(box.lines("saved")) == ["0", "1", "2"]


def test_the_launcher_needs_no_more_than_the_standard_library() -> None:
    code = "import sys, tgpu.engines.local.gang; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True)
    assert {b"pydantic", b"msgspec", b"asyncio"}.isdisjoint(ran.stdout.split())
