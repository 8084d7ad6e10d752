"""Commands in conda, venv and uv environments, as the child that becomes the command finds them."""

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from tgpu.engines.local import environments
from tgpu.engines.local.commands import NotStarted
from tgpu.engines.local.environments import resolved

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


class Made(NamedTuple):
    argv: tuple[str, ...]
    env: dict[str, str]


def wrap(kind: str, name: str, home: Path, path: str = "/nowhere", **variables: str) -> Made:
    command = {
        "argv": list(ODD),
        "env": {"SEED": "1", "PATH": path, **variables},
        "cwd": str(home),
        "home": str(home),
        "environment": [kind, name],
    }
    made = resolved(command)
    return Made(tuple(made["argv"]), made["env"])


def refusal(kind: str, name: str, home: Path, path: str = "/nowhere", **variables: str) -> str:
    with pytest.raises(NotStarted) as caught:
        wrap(kind, name, home, path, **variables)
    assert not caught.value.retry
    return str(caught.value)


def test_conda_runs_the_words_of_the_command_as_they_are(home):
    conda = a_program(home / "bin" / "conda")
    detail = wrap("conda", "ml_env", home, str(conda.parent))
    assert detail.argv == (str(conda), "run", "--no-capture-output", "-n", "ml_env", *ODD)


def test_conda_is_found_where_it_is_usually_installed(home):
    conda = a_program(home / "miniconda3" / "bin" / "conda")
    assert wrap("conda", "ml", home).argv[0] == str(conda)


def test_conda_is_found_by_what_an_activated_shell_says(home):
    conda = a_program(home / "elsewhere" / "conda")
    assert wrap("conda", "ml", home, CONDA_EXE=str(conda)).argv[0] == str(conda)


def test_a_conda_environment_may_be_a_path(home):
    conda = a_program(home / "bin" / "conda")
    (home / "envs" / "ml").mkdir(parents=True)
    detail = wrap("conda", "~/envs/ml", home, str(conda.parent))
    assert detail.argv[3:5] == ("-p", str(home / "envs" / "ml"))
    sentence = refusal("conda", "./envs/other", home, str(conda.parent))
    assert sentence == f"conda ./envs/other: there is no directory {home}/envs/other"


def test_an_environment_that_conda_does_not_have_is_refused_with_those_it_has(home):
    conda = a_program(home / "miniconda3" / "bin" / "conda")
    for name in ("conda-meta", "envs/ml"):
        (home / "miniconda3" / name).mkdir(parents=True)
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text("/data/envs/vision\n")
    message = refusal("conda", "mll", home)
    assert "no such environment; there are: base, ml, vision" in message
    for name in ("base", "ml", "vision"):
        assert wrap("conda", name, home).argv[0] == str(conda)


def test_without_conda_the_submission_is_refused(home, monkeypatch):
    monkeypatch.setattr(environments, "_CONDA_PLACES", ())
    assert "there is no conda on the job's PATH" in refusal("conda", "ml", home)


def test_a_venv_comes_first_on_the_path(home):
    a_program(home / "venv" / "bin" / "python")
    detail = wrap("venv", "venv", home, "/usr/bin:/bin")
    venv = str(home / "venv")
    assert detail.argv == ODD
    assert detail.env == {
        "SEED": "1",
        "VIRTUAL_ENV": venv,
        "PATH": f"{venv}/bin{os.pathsep}/usr/bin:/bin",
    }


def test_a_venv_without_python_is_refused_with_the_command_that_makes_it(home):
    assert f"python3 -m venv {home}/venv" in refusal("venv", "venv", home)


def test_uv_runs_the_command_in_its_project(home):
    uv = a_program(home / ".local" / "bin" / "uv")
    (home / "project").mkdir()
    assert "pyproject.toml" in refusal("uv", "project", home)
    (home / "project" / "pyproject.toml").touch()
    detail = wrap("uv", "project", home)
    assert detail.argv == (str(uv), "run", "--project", str(home / "project"), "--", *ODD)


def test_without_an_environment_nothing_changes():
    command = {"argv": ["true"], "env": {}, "cwd": "/"}
    assert resolved(command) is command


def test_nobody_waits_for_a_pipe_in_the_place_of_a_list(home):
    a_program(home / "miniconda3" / "bin" / "conda")
    (home / "miniconda3" / "conda-meta").mkdir()
    (home / ".conda").mkdir()
    os.mkfifo(home / ".conda" / "environments.txt")
    assert refusal("conda", "ml", home).endswith("no such environment; there are: base")
    (home / "miniconda3" / "bin" / "conda").unlink()
    os.mkfifo(home / "miniconda3" / "bin" / "conda", 0o755)
    assert "there is no conda" in refusal("conda", "ml", home)


def test_a_list_without_end_is_not_read_to_its_end(home):
    a_program(home / "miniconda3" / "bin" / "conda")
    (home / "miniconda3" / "conda-meta").mkdir()
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text("/envs/a\n" * 2_000_000)
    assert refusal("conda", "ml", home).endswith("there are: a, base")
    (home / ".conda" / "environments.txt").unlink()
    (home / ".conda" / "environments.txt").symlink_to("/dev/zero")
    assert refusal("conda", "ml", home).endswith("there are: base")
