"""What a job leaves behind is found and ended also where supervisor and runner were both killed."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.engines.box import Box, kill, kill_and_wait, until_true
from tgpu.devices.control_groups import tracking_tree
from tgpu.engines.api import AttemptKey, Launch, Phase, RunAs
from tgpu.engines.local.engine import LocalEngine
from tgpu.engines.local.processes import is_alive, start_time

# Forks twice, into a session of its own, with no output and no files of the job's left open.
_DAEMON = """
import os, sys, time
if os.fork():
    os.wait()
    print("up", flush=True)
    while not os.path.exists(os.environ["WORK"] + "/go"):
        time.sleep(0.02)
    sys.exit(0)
os.setsid()
if os.fork():
    os._exit(0)
null = os.open("/dev/null", os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(null, number)
os.chdir("/")
work = os.environ["WORK"]
keeps = {} if "CLEARED" in os.environ else os.environ
note = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
os.execve(sys.executable, [sys.executable, "-IS", "-c", note, work + "/daemon"], keeps)
"""


def _daemon_job(box: Box, name: str = "j", **more: str) -> Launch:
    launch = box.python(name, _DAEMON)
    marks = {
        "TGPU_JOB_ID": name,
        "TGPU_ATTEMPT": "1",
        "TGPU_LOG_DIR": str(box.directory / "jobs" / name / "1"),
    }
    return replace(launch, env={**launch.env, **marks, **more})


async def _daemon(box: Box) -> tuple[int, int]:
    await until_true(lambda: box.lines("daemon"), "the daemon to be up")
    pid = int(box.lines("daemon")[0])
    return pid, start_time(pid)


def _supervisor(engine: LocalEngine) -> int:
    assert engine.supervisor_pid is not None
    return engine.supervisor_pid


async def _kill_both(box: Box, engine: LocalEngine, name: str = "j") -> None:
    """The supervisor first: else it would take over what the runner had."""
    supervisor, runner = _supervisor(engine), box.runner_of(name)
    os.kill(supervisor, 19)
    os.kill(runner, 9)
    await kill_and_wait(supervisor, runner)


@pytest.mark.parametrize("first", ["the command", "its keepers"])
async def test_a_daemon_of_a_job_is_ended_before_the_attempt_is_over(box: Box, first: str) -> None:
    engine = await box.engine()
    await engine.launch([_daemon_job(box)])
    daemon = await _daemon(box)
    if first == "the command":
        (box.work / "go").touch()
    await _kill_both(box, engine)
    (box.work / "go").touch()
    end = await box.end(engine, "j")
    assert end.phase in (Phase.LOST, Phase.EXITED)
    assert not is_alive(*daemon)
    assert box.job_processes() == {}


async def test_a_daemon_that_cleared_its_environment_is_known_by_its_control_group(
    box: Box,
) -> None:
    engine = await box.engine()
    await engine.launch([_daemon_job(box, CLEARED="1")])
    daemon = await _daemon(box)
    try:
        await _kill_both(box, engine)
        (box.work / "go").touch()
        await box.end(engine, "j")
        # Where the machine has no control groups for us, nobody can know it.
        assert is_alive(*daemon) == isinstance(tracking_tree(), str)
    finally:
        kill(daemon[0])


async def test_a_stranger_with_the_same_variables_and_another_directory_is_left_alone(
    box: Box, tmp_path: Path
) -> None:
    marks = {"TGPU_JOB_ID": "j", "TGPU_ATTEMPT": "1", "TGPU_LOG_DIR": f"{tmp_path}/jobs/j/1"}
    words = [sys.executable, "-IS", "-c", "import time; time.sleep(600)"]
    other = {"TGPU_JOB_ID": "k", "TGPU_ATTEMPT": "1", "TGPU_LOG_DIR": f"{box.directory}/jobs/k/1"}
    with (
        subprocess.Popen(words, env=marks, start_new_session=True) as stranger,
        subprocess.Popen(words, env=other, start_new_session=True) as other_job,
    ):
        try:
            engine = await box.engine()
            await engine.launch([_daemon_job(box)])
            daemon = await _daemon(box)
            await _kill_both(box, engine)
            (box.work / "go").touch()
            await box.end(engine, "j")
            assert not is_alive(*daemon)
            assert (stranger.poll(), other_job.poll()) == (None, None)
        finally:
            stranger.kill()
            other_job.kill()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """The folders of tests are for one user alone; here everybody may write."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o777)
        yield Path(made)


async def test_the_daemons_of_a_gang_and_of_another_user_are_ended(
    box: Box, open_folder: Path
) -> None:
    engine = await box.engine()
    script = (
        f"setsid sh -c 'echo $$ >> {open_folder}/pids; exec sleep 600' </dev/null >/dev/null 2>&1 &"
        f" while [ ! -e {open_folder}/go ]; do sleep 0.02; done"
    )
    launch = box.shell("g", script)
    marks = {"TGPU_JOB_ID": "g", "TGPU_ATTEMPT": "1", "PATH": "/usr/bin:/bin"}
    marks["TGPU_LOG_DIR"] = str(box.directory / "jobs" / "g" / "1")
    launch = replace(launch, env={**launch.env, **marks}, cwd="/", user=RunAs(65534, 65534, ()))
    await engine.launch([replace(launch, workers=({"RANK": "0"}, {"RANK": "1"}))])
    pids = open_folder / "pids"
    await until_true(
        lambda: pids.exists() and len(pids.read_text().split()) == 2, "both workers' daemons"
    )
    daemons = [(int(pid), start_time(int(pid))) for pid in pids.read_text().split()]
    await _kill_both(box, engine, "g")
    (open_folder / "go").touch()
    await box.end(engine, "g")
    assert not any(is_alive(*daemon) for daemon in daemons)


async def test_of_two_jobs_without_runners_each_keeps_its_daemon(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([_daemon_job(box), _daemon_job(box, "k", WORK=str(box.work / "k"))])
    (box.work / "k").mkdir(exist_ok=True)
    daemon = await _daemon(box)
    await until_true(lambda: (box.work / "k" / "daemon").exists(), "the other daemon")
    await until_true(lambda: (box.work / "k" / "daemon").read_text(), "the other daemon's number")
    other = int((box.work / "k" / "daemon").read_text())
    other_start = start_time(other)
    await kill_and_wait(box.runner_of("j"), box.runner_of("k"))
    (box.work / "go").touch()
    await box.end(engine, "j")
    assert not is_alive(*daemon)
    assert is_alive(other, other_start)
    await engine.stop([AttemptKey("k", 1)])
    await box.end(engine, "k")
    assert not is_alive(other, other_start)
