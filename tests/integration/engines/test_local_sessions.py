"""Jobs in sessions of the real GNU screen and the real tmux."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.engines.box import Box, kill_and_wait, until_true
from tgpu.engines.api import Launch, Phase, PreemptionNotice
from tgpu.engines.local.windows import PROGRAMS

NAME = "gpujob_0_test_7"


class Program:
    """What shows the sessions: screen or tmux, with sockets of a test's own."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = {"SCREENDIR" if name == "screen" else "TMUX_TMPDIR": str(folder)}

    def run(self, *words: str) -> str:
        env = {**os.environ, **self.folder}
        ran = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
        return ran.stdout

    def sessions(self) -> str:
        if self.name == "screen":
            return self.run("screen", "-ls")
        return self.run("tmux", "-L", NAME, "list-sessions")

    def type(self, line: str) -> None:
        if self.name == "screen":
            self.run("screen", "-S", NAME, "-X", "stuff", f"{line}\r")
        else:
            self.run("tmux", "-L", NAME, "send-keys", line, "Enter")

    def shown(self, copy: Path) -> str:
        if self.name == "tmux":
            return self.run("tmux", "-L", NAME, "capture-pane", "-p")
        self.run("screen", "-S", NAME, "-X", "hardcopy", str(copy))
        return copy.read_text() if copy.exists() else ""

    def quit(self) -> None:
        if self.name == "screen":
            self.run("screen", "-S", NAME, "-X", "quit")
        else:
            self.run("tmux", "-L", NAME, "kill-session")


@pytest.fixture(params=["screen", "tmux"])
def program(request: pytest.FixtureRequest) -> Iterator[Program]:
    # Not in pytest's own folders: the path of a socket has 107 bytes.
    with tempfile.TemporaryDirectory() as folder:
        yield Program(request.param, Path(folder))


def in_session(launch: Launch, program: Program) -> Launch:
    env = {**launch.env, **program.folder}
    return replace(launch, session=NAME, multiplexer=program.name, env=env)


def said(box: Box, words: str, file: str = "stdout.log") -> bool:
    log = box.directory / "jobs" / "j" / "1" / file
    return log.exists() and words in log.read_text()


async def test_a_job_runs_in_a_session_of_its_name(box: Box, program: Program) -> None:
    engine = await box.engine()
    await engine.launch(
        [in_session(box.shell("j", "while [ ! -e go ]; do sleep 0.05; done"), program)]
    )
    await until_true(lambda: NAME in program.sessions(), "the session")
    (box.work / "go").touch()
    assert (await box.end(engine, "j")).exit_code == 0
    assert NAME not in program.sessions()
    assert box.job_processes() == {}


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [("exit 0", 0, None), ("exit 3", 3, None), ("kill -9 $$", 137, 9)],
)
async def test_its_exit_code_is_kept(
    box: Box, program: Program, script: str, code: int, number: int | None
) -> None:
    engine = await box.engine()
    await engine.launch([in_session(box.shell("j", script), program)])
    end = await box.end(engine, "j")
    assert (end.phase, end.exit_code, end.signal) == (Phase.EXITED, code, number)


async def test_its_output_is_in_the_log_and_it_has_a_terminal(box: Box, program: Program) -> None:
    engine = await box.engine()
    script = "echo one; echo two >&2; test -t 0 && test -t 1 && echo $TERM"
    await engine.launch([in_session(box.shell("j", script), program)])
    await box.end(engine, "j")
    assert box.text("j") == "one\ntwo\nscreen\n"


async def test_a_lot_of_output_is_all_there(box: Box, program: Program) -> None:
    engine = await box.engine()
    await engine.launch([in_session(box.shell("j", "seq 1 100000"), program)])
    await box.end(engine, "j")
    assert box.text("j") == "".join(f"{n}\n" for n in range(1, 100_001))


async def test_what_is_typed_reaches_the_job_and_its_words_are_shown(
    box: Box, program: Program
) -> None:
    engine = await box.engine()
    script = (
        "stty -echo; echo ready; read line; echo got $line; while [ ! -e go ]; do sleep 0.05; done"
    )
    await engine.launch([in_session(box.shell("j", script), program)])
    await until_true(lambda: NAME in program.sessions() and said(box, "ready"), "the question")
    program.type("hello")
    await until_true(lambda: said(box, "got hello"), "the answer")
    await until_true(lambda: "got hello" in program.shown(box.work / "shown"), "the window")
    (box.work / "go").touch()
    await box.end(engine, "j")


async def test_a_cancel_ends_everything_in_the_session(box: Box, program: Program) -> None:
    engine = await box.engine()
    launch = in_session(box.shell("j", "setsid sleep 600 & sleep 600 & echo up; wait"), program)
    await engine.launch([launch])
    await until_true(lambda: NAME in program.sessions() and said(box, "up"), "the session")
    await engine.stop([launch.key])
    assert (await box.end(engine, "j")).cause == "stopped"
    assert box.job_processes() == {}
    assert NAME not in program.sessions()


async def test_a_job_that_is_ended_gets_its_grace(box: Box, program: Program) -> None:
    engine = await box.engine()
    script = "trap 'sleep 0.3; echo saved; exit 5' TERM; echo up; while :; do sleep 0.05; done"
    launch = in_session(box.shell("j", script, grace_ms=10_000), program)
    await engine.launch([launch])
    await until_true(lambda: NAME in program.sessions() and said(box, "up"), "the session")
    await engine.stop([launch.key])
    assert (await box.end(engine, "j")).exit_code == 5
    assert "saved" in box.text("j")


async def test_a_checkpoint_signal_goes_to_the_command(box: Box, program: Program) -> None:
    engine = await box.engine()
    script = "trap 'echo saved; exit 6' USR1; echo up; while :; do sleep 0.05; done"
    launch = in_session(box.shell("j", script), program)
    await engine.launch([launch])
    await until_true(lambda: said(box, "up"), "the command")
    await engine.stop([launch.key], PreemptionNotice(signal.SIGUSR1, 30_000))
    assert (await box.end(engine, "j")).exit_code == 6


async def test_a_session_that_is_closed_does_not_end_the_job(box: Box, program: Program) -> None:
    engine = await box.engine()
    script = "while [ ! -e go ]; do sleep 0.05; done; echo still here"
    await engine.launch([in_session(box.shell("j", script), program)])
    await until_true(lambda: NAME in program.sessions(), "the session")
    program.quit()
    await until_true(lambda: said(box, "is closed", "stderr.log"), "the note")
    (box.work / "go").touch()
    assert (await box.end(engine, "j")).exit_code == 0
    assert box.text("j") == "still here\n"


async def test_without_the_program_the_job_runs_all_the_same_and_says_so(
    box: Box, program: Program
) -> None:
    engine = await box.engine()
    empty = box.work / "bin"
    empty.mkdir()
    launch = box.launch("j", "/bin/sh", "-c", "echo ran", env={"PATH": str(empty)})
    await engine.launch([in_session(launch, program)])
    assert (await box.end(engine, "j")).exit_code == 0
    assert box.text("j") == "ran\n"
    assert f"{PROGRAMS[program.name]} is not installed" in box.text("j", "stderr.log")


async def test_a_command_that_is_not_there_fails_as_without_a_session(
    box: Box, program: Program
) -> None:
    engine = await box.engine()
    await engine.launch([in_session(box.launch("j", "no-such-command"), program)])
    assert (await box.end(engine, "j")).exit_code == 127
    assert "no-such-command: command not found" in box.text("j", "stderr.log")


async def test_it_is_ended_whole_though_its_runner_was_killed(box: Box, program: Program) -> None:
    engine = await box.engine()
    script = "while [ ! -e go ]; do sleep 0.05; done; exit 4"
    launch = in_session(box.shell("j", script), program)
    await engine.launch([launch])
    await until_true(lambda: NAME in program.sessions(), "the session")
    await kill_and_wait(box.runner_of("j"))
    await engine.stop([launch.key])
    assert (await box.end(engine, "j")).cause == "stopped"
    assert box.job_processes() == {}
