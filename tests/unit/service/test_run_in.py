"""Commands in conda, venv and uv environments."""

import os
from pathlib import Path

import pytest

from gpu_scheduler.core.errors import InvalidRequest
from gpu_scheduler.core.job import Detail, Request
from gpu_scheduler.service.run_in import wrapped
from gpu_scheduler.service.submission import RunIn, Submission

ODD = ("python", "x.py", "--text", "a b; rm -rf '$HOME'")


def a_program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def wrap(run_in: RunIn, home: Path, path: str = "/nowhere", argv=ODD, **variables: str) -> Detail:
    wanted = Submission(
        request=Request(1000),
        tenant_id="t",  # type: ignore[arg-type]  # ids are text
        detail=Detail(argv=argv, cwd=str(home), env=(("SEED", "1"),)),
        run_in=run_in,
    )
    made = wrapped(wanted, {"PATH": path, **variables}, str(home))
    assert made.run_in is None or not argv
    return made.detail


def refusal(run_in: RunIn, home: Path, path: str = "/nowhere", **variables: str) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        wrap(run_in, home, path, **variables)
    return caught.value


def test_conda_runs_the_words_of_the_command_as_they_are(home):
    conda = a_program(home / "bin" / "conda")
    detail = wrap(RunIn(conda="ml_env"), home, str(conda.parent))
    assert detail.argv == (str(conda), "run", "--no-capture-output", "-n", "ml_env", *ODD)


def test_conda_is_found_where_it_is_usually_installed(home):
    conda = a_program(home / "miniconda3" / "bin" / "conda")
    assert wrap(RunIn(conda="ml"), home).argv[0] == str(conda)


def test_conda_is_found_by_what_an_activated_shell_says(home):
    conda = a_program(home / "elsewhere" / "conda")
    assert wrap(RunIn(conda="ml"), home, CONDA_EXE=str(conda)).argv[0] == str(conda)


def test_a_conda_environment_may_be_a_path(home):
    conda = a_program(home / "bin" / "conda")
    (home / "envs" / "ml").mkdir(parents=True)
    detail = wrap(RunIn(conda="~/envs/ml"), home, str(conda.parent))
    assert detail.argv[3:5] == ("-p", str(home / "envs" / "ml"))
    error = refusal(RunIn(conda="./envs/other"), home, str(conda.parent))
    assert (error.field, "there is no directory" in error.message) == ("conda", True)


def test_an_environment_that_conda_does_not_have_is_refused_with_those_it_has(home):
    conda = a_program(home / "miniconda3" / "bin" / "conda")
    for name in ("conda-meta", "envs/ml"):
        (home / "miniconda3" / name).mkdir(parents=True)
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text("/data/envs/vision\n")
    message = refusal(RunIn(conda="mll"), home).message
    assert "no such environment; there are: base, ml, vision" in message
    for name in ("base", "ml", "vision"):
        assert wrap(RunIn(conda=name), home).argv[0] == str(conda)


def test_without_conda_the_submission_is_refused(home, monkeypatch):
    monkeypatch.setattr("gpu_scheduler.service.run_in._CONDA_PLACES", ())
    assert "there is no conda on the job's PATH" in refusal(RunIn(conda="ml"), home).message


def test_a_venv_comes_first_on_the_path(home):
    a_program(home / "venv" / "bin" / "python")
    detail = wrap(RunIn(venv="venv"), home, "/usr/bin:/bin")
    venv = str(home / "venv")
    assert detail.argv == ODD
    assert dict(detail.env) == {
        "SEED": "1",
        "VIRTUAL_ENV": venv,
        "PATH": f"{venv}/bin{os.pathsep}/usr/bin:/bin",
    }


def test_a_venv_without_python_is_refused_with_the_command_that_makes_it(home):
    error = refusal(RunIn(venv="venv"), home)
    assert error.field == "venv"
    assert f"python3 -m venv {home}/venv" in error.message


def test_uv_runs_the_command_in_its_project(home):
    uv = a_program(home / ".local" / "bin" / "uv")
    (home / "project").mkdir()
    assert "pyproject.toml" in refusal(RunIn(uv="project"), home).message
    (home / "project" / "pyproject.toml").touch()
    detail = wrap(RunIn(uv="project"), home)
    assert detail.argv == (str(uv), "run", "--project", str(home / "project"), "--", *ODD)


def test_two_environments_at_once_are_refused(home):
    assert "conda is there as well" in refusal(RunIn(conda="a", venv="b"), home).message


def test_a_lease_runs_in_no_environment(home):
    with pytest.raises(InvalidRequest, match="needs a command"):
        wrap(RunIn(conda="ml"), home, argv=())


def test_no_environment_changes_nothing(home):
    assert wrap(RunIn(), home, argv=()).argv == ()
