"""What a job names is looked up when it starts: as its user, and holding up nobody else."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.engines.box import Box, kill_and_wait, until, until_true
from tgpu.engines.api import AttemptKey, Launch, Observation, Phase, RunAs
from tgpu.engines.local.record import read_claim

_NOBODY = RunAs(65534, 65534, ())


def _as_nobody(launch: Launch, **fields: object) -> Launch:
    return replace(launch, user=_NOBODY, cwd="/", **fields)  # type: ignore[arg-type]  # a Launch's


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A home that only root may look into, with environments of every kind."""
    home = tmp_path / "home"
    (home / ".conda" / "envs" / "payroll").mkdir(parents=True)
    (home / ".conda" / "environments.txt").write_text("root:$6$salt$hash:1:0:99999:7:::\n")
    (home / "miniconda3" / "conda-meta").mkdir(parents=True)
    for program in ("miniconda3/bin/conda", "venv/bin/python", "bin/uv"):
        path = home / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    (home / "pyproject.toml").touch()
    home.chmod(0o700)
    return home


async def _failed(box: Box, launch: Launch) -> Observation:
    engine = await box.engine()
    await engine.launch([launch])
    end = await box.end(engine, launch.key.job_id)
    assert (end.phase, end.retry) == (Phase.NOT_STARTED, False)
    return end


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("conda", "mine", "conda mine: there is no conda on the job's PATH"),
        ("conda", "{}/.conda/envs/payroll", "there is no conda on the job's PATH"),
        ("venv", "{}/venv", "there is no {}/venv/bin/python"),
        ("uv", "{}", "there is no {}/pyproject.toml"),
    ],
)
async def test_a_user_learns_nothing_of_what_only_root_may_see(
    box: Box, secret: Path, kind: str, name: str, words: str
) -> None:
    paths = f"{secret}/bin:{secret}/miniconda3/bin"
    launch = _as_nobody(
        box.launch("j", "true", env={"PATH": paths, "CONDA_ENVS_PATH": str(secret)}),
        environment=(kind, name.format(secret)),
        home=str(secret),
    )
    cause = (await _failed(box, launch)).cause
    assert cause is not None
    assert words.format(secret) in cause
    assert "$6$" not in cause
    assert "base" not in cause


async def test_a_user_with_a_conda_of_their_own_sees_only_their_environments(
    box: Box, secret: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    conda = Path("/tmp") / f"{os.getpid()}-conda"  # the folders of tests are root's alone
    try:
        (conda / "bin").mkdir(parents=True)
        (conda / "conda-meta").mkdir()
        (conda / "bin" / "conda").write_text("#!/bin/sh\n")
        (conda / "bin" / "conda").chmod(0o755)
        launch = _as_nobody(
            box.launch("j", "true", env={"PATH": f"{conda}/bin", "CONDA_ENVS_PATH": "/root"}),
            environment=("conda", "x"),
            home=str(secret),
        )
        cause = (await _failed(box, launch)).cause
        assert cause == "conda x: no such environment; there are: base"
    finally:
        for path in (conda / "bin" / "conda", conda / "bin", conda / "conda-meta", conda):
            path.unlink() if path.is_file() else path.rmdir()


async def test_a_script_outside_of_the_allowed_folders_does_not_start(box: Box) -> None:
    (box.work / "allowed").mkdir()
    for name in ("allowed/x", "other"):
        (box.work / name).write_text("#!/bin/sh\necho ran\n")
        (box.work / name).chmod(0o755)
    (box.work / "link").symlink_to("allowed/x")
    folders = (str(box.work / "allowed"),)
    engine = await box.engine()
    good = replace(box.launch("good", "./link"), script_folders=folders)
    bad = replace(box.launch("bad", "./other"), script_folders=folders)
    workers = ({"RANK": "0"}, {"RANK": "1"})
    gang = replace(box.launch("gang", "sh", "other"), script_folders=folders, workers=workers)
    await engine.launch([good, bad, gang])
    assert (await box.end(engine, "good")).exit_code == 0
    for name in ("bad", "gang"):
        end = await box.end(engine, name)
        assert (end.phase, end.retry) == (Phase.NOT_STARTED, False)
        assert end.cause is not None
        assert f"the script {box.work}/other is outside security.allowed_script_paths" in end.cause
        assert box.text(name) == ""


async def test_all_workers_of_a_gang_run_in_the_environment(box: Box) -> None:
    (box.work / "venv" / "bin").mkdir(parents=True)
    (box.work / "venv" / "bin" / "python").symlink_to("/bin/true")
    engine = await box.engine()
    gang = box.launch("g", "sh", "-c", "echo $VIRTUAL_ENV")
    await engine.launch(
        [replace(gang, workers=({"RANK": "0"}, {"RANK": "1"}), environment=("venv", "venv"))]
    )
    assert (await box.end(engine, "g")).exit_code == 0
    assert box.text("g").split() == [str(box.work / "venv")] * 2


# What a file system that does not answer does to whoever looks at it.
_HUNG_CHILD = (
    "import time; from tgpu.engines.local import environments; "
    "real = environments.resolved\n"
    "def resolved(command):\n"
    "    while 'environment' in command: time.sleep(1)\n"
    "    return real(command)\n"
    "environments.resolved = resolved\n"
)
_HUNG_RUNNER = (
    "import os, time; real = os.chdir\n"
    "def chdir(path):\n"
    "    while path == '/hung': time.sleep(1)\n"
    "    real(path)\n"
    "os.chdir = chdir\n"
)


@pytest.mark.parametrize(
    ("prelude", "fields"),
    [(_HUNG_CHILD, {"environment": ("venv", "x")}), (_HUNG_RUNNER, {"cwd": "/hung"})],
    ids=["child", "runner"],
)
async def test_a_start_that_hangs_holds_up_nobody_and_can_be_cancelled(
    box: Box, prelude: str, fields: dict[str, object]
) -> None:
    quick = "from tgpu.engines.local import ending; ending._START_SECONDS = 0.1\n"
    box.start_supervisor(quick + prelude)
    engine = await box.engine()
    hung = replace(box.shell("hung", "echo ran >> $WORK/ran"), **fields)  # type: ignore[arg-type]  # a Launch's
    await engine.launch([hung])
    path = str(box.directory / "jobs" / "hung" / "1")
    await until_true(lambda: (c := read_claim(path, "")) and c.runner, "its runner to have it")
    await engine.launch([box.shell("other", "exit 3")])
    assert (await box.end(engine, "other")).exit_code == 3
    await engine.stop([AttemptKey("hung", 1)])
    end = await box.end(engine, "hung")
    assert end.phase is Phase.NOT_STARTED
    assert box.lines("ran") == []


async def test_a_start_that_hangs_is_ended_also_by_the_next_supervisor(box: Box) -> None:
    quick = "from tgpu.engines.local import ending; ending._START_SECONDS = 0.1\n"
    box.start_supervisor(quick + _HUNG_CHILD)
    engine = await box.engine()
    await engine.launch([replace(box.shell("hung", "true"), environment=("venv", "x"))])
    path = str(box.directory / "jobs" / "hung" / "1")
    await until_true(lambda: (c := read_claim(path, "")) and c.runner, "its runner to have it")
    supervisor = engine.supervisor_pid
    assert supervisor is not None
    await engine.close()
    await kill_and_wait(supervisor)
    box.start_supervisor(quick)
    engine = await box.engine()
    await engine.stop([AttemptKey("hung", 1)])
    assert (await box.end(engine, "hung")).phase is Phase.NOT_STARTED

    async def gone() -> bool:
        return not box.job_processes()

    await until(gone, "what hung to be gone")
