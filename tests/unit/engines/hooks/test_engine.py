"""Prolog and epilog around the attempts of an engine that does what the test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.service.eventually import eventually
from tgpu.engines.api import AttemptKey, Launch, Observation, Phase, RunAs
from tgpu.engines.fake import FakeEngine
from tgpu.engines.hooks.engine import HookedEngine, HookSettings

KEY = AttemptKey("7", 1, "ab" * 16)
LAUNCH = Launch(
    KEY,
    ("train",),
    "/",
    {"TGPU_GPUS": "0,3", "TGPU_TENANT": "lab", "USER": "root", "SECRET": "x"},
    user=RunAs(65534, 65534, ()),
)


class Box:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "jobs").mkdir()
        self.inner = FakeEngine(logs=str(folder / "jobs"))
        self.news: list[Observation] = []
        self.held: list[str] = []

    def hook(self, script: str) -> tuple[str, ...]:
        return ("/bin/sh", "-c", f"cd {self.folder}; {script}")

    def file(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def log(self, name: str) -> Path:
        return Path(self.inner.log_dir(KEY) or "") / name

    @asynccontextmanager
    async def engine(self, **settings: object) -> AsyncIterator[HookedEngine]:
        made = HookedEngine(self.inner, HookSettings(**settings))  # type: ignore[arg-type]  # as named
        await made.open()
        made.hold = self._hold

        async def listen() -> None:
            async for batch in made.changes():
                self.news += batch

        listening = asyncio.create_task(listen())
        try:
            yield made
        finally:
            await made.close()
            await listening

    async def _hold(self, why: str) -> None:
        self.held.append(why)

    def phases(self) -> list[Phase]:
        return [seen.phase for seen in self.news]


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


async def test_a_prolog_comes_before_the_launch_with_facts_and_nothing_of_the_jobs_own(
    box: Box,
) -> None:
    script = "env | sort > facts; while [ ! -e go ]; do sleep 0.01; done; echo checked"
    async with box.engine(prolog=box.hook(script)) as engine:
        await engine.launch([LAUNCH])
        await engine.launch([LAUNCH])  # as a reconciler does
        await eventually(lambda: "TGPU_HOOK=prolog" in box.file("facts"), "the prolog")
        assert box.inner.launched == []
        (box.folder / "go").touch()
        await eventually(lambda: box.inner.launched, "the launch")
        assert [launch.key for launch in box.inner.launched] == [LAUNCH.key]
    facts = dict(line.split("=", 1) for line in box.file("facts").splitlines())
    assert facts["TGPU_HOOK_JOB_ID"] == "7"
    assert (facts["TGPU_HOOK_GPUS"], facts["TGPU_HOOK_UID"]) == ("0,3", "65534")
    # As the machine names whom it runs as, and not as the submitter's environment says.
    assert (facts["TGPU_HOOK_TENANT"], facts["TGPU_HOOK_USER"]) == ("lab", "nobody")
    assert not {"SECRET", "TGPU_JOB_ID", "TGPU_GPUS", "HOME"} & facts.keys()
    assert box.log("prolog.log").read_text() == "checked\n"
    assert box.log("prolog.log").stat().st_mode & 0o777 == 0o600


async def test_a_prolog_that_fails_keeps_the_job_from_starting_and_the_epilog_cleans_up(
    box: Box,
) -> None:
    settings = {"prolog": box.hook("exit 3"), "epilog": box.hook("echo x >> cleaned")}
    async with box.engine(**settings, hold_after=2) as engine:
        await engine.launch([LAUNCH])
        await eventually(lambda: box.phases() == [Phase.NOT_STARTED], "the end")
        assert box.news[0].cause == (
            "the prolog of this machine ended with exit code 3; it will be retried"
        )
        assert box.news[0].retry
        assert (box.inner.launched, box.file("cleaned"), box.held) == ([], "x\n", [])
        assert [seen.key for seen in await engine.observe()] == [KEY]
        await engine.forget([KEY])
        assert await engine.observe() == []
        await engine.launch([Launch(KEY._replace(attempt=2), ("t",), "/", {})])
        await eventually(lambda: len(box.news) == 2, "the second")
        assert box.held == ["the prolog ended with exit code 3, 2 times in a row"]
        assert engine.problems() != []


async def test_an_end_is_told_when_the_epilog_is_over(box: Box) -> None:
    script = "env > facts; echo x >> runs; while [ ! -e go ]; do sleep 0.01; done"
    async with box.engine(epilog=box.hook(script)) as engine:
        gang = replace(LAUNCH, env={}, workers=({"TGPU_GPUS": "0"}, {"TGPU_GPUS": "3"}))
        await engine.launch([gang])
        await eventually(lambda: box.phases() == [Phase.RUNNING], "the start")
        box.inner.finish(KEY, 9)
        await eventually(lambda: box.file("runs"), "the epilog")
        # Whoever asks is told that it runs: nobody else gets its GPUs.
        assert [seen.phase for seen in await engine.observe()] == [Phase.RUNNING]
        assert box.phases() == [Phase.RUNNING]
        (box.folder / "go").touch()
        await eventually(lambda: box.phases() == [Phase.RUNNING, Phase.EXITED], "the end")
        assert [seen.phase for seen in await engine.observe()] == [Phase.EXITED]
    assert box.file("runs") == "x\n"
    assert "TGPU_HOOK_EXIT_CODE=9" in box.file("facts")
    assert "TGPU_HOOK_GPUS=0,3" in box.file("facts")


async def test_a_service_that_ends_in_the_midst_of_a_hook_runs_it_again(box: Box) -> None:
    """Decisions are on record elsewhere: the next service launches and sees the end again."""
    prolog = box.hook("echo x >> prologs; [ -e go ] || sleep 60")
    epilog = box.hook("echo x >> epilogs; [ -e gone ] || sleep 60")
    async with box.engine(prolog=prolog, epilog=epilog) as engine:
        await engine.launch([LAUNCH])
        await eventually(lambda: box.file("prologs"), "the prolog")
    assert box.inner.launched == []
    (box.folder / "go").touch()
    async with box.engine(prolog=prolog, epilog=epilog) as engine:
        await engine.launch([LAUNCH])
        await eventually(lambda: box.inner.launched, "the launch")
        box.inner.finish(KEY)
        await eventually(lambda: box.file("epilogs"), "the epilog")
    assert Phase.EXITED not in box.phases()
    (box.folder / "gone").touch()
    async with box.engine(prolog=prolog, epilog=epilog):
        await eventually(lambda: Phase.EXITED in box.phases(), "the end")
    assert (box.file("prologs"), box.file("epilogs")) == ("x\nx\n", "x\nx\n")


async def test_one_that_is_stopped_while_its_prolog_runs_never_starts_and_is_cleaned_up(
    box: Box,
) -> None:
    settings = {"prolog": box.hook("echo $$ > pid; sleep 60"), "epilog": box.hook("touch clean")}
    async with box.engine(**settings) as engine:
        await engine.launch([LAUNCH])
        await eventually(lambda: box.file("pid").strip(), "the prolog")
        await engine.stop([KEY])
        await eventually(lambda: box.phases() == [Phase.NOT_STARTED], "the end")
        assert box.news[0].cause == "stopped"
        assert (box.folder / "clean").exists()
        assert not Path(f"/proc/{box.file('pid').strip()}").exists()
        assert box.inner.launched == []


async def test_an_epilog_that_hangs_is_ended_said_and_holds_the_machine_where_it_shall(
    box: Box,
) -> None:
    settings = {"epilog": box.hook("sleep 60"), "timeout_seconds": 0.2, "hold_on_epilog": True}
    async with box.engine(**settings) as engine:
        await engine.launch([LAUNCH])
        box.inner.finish(KEY)
        await eventually(lambda: Phase.EXITED in box.phases(), "the end")
        assert box.held == ["the epilog of job 7 did not finish within 0.2 s"]
        assert engine.problems() == box.held


async def test_a_program_that_is_not_there_is_told(box: Box) -> None:
    async with box.engine(prolog=("/nonexistent/check",)) as engine:
        await engine.launch([LAUNCH])
        await eventually(lambda: box.phases() == [Phase.NOT_STARTED], "the end")
        assert "exit code" in (box.news[0].cause or "")
        assert b"No such file" in box.log("prolog.log").read_bytes()
