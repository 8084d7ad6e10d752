"""Which file a command runs, and whether it may."""

from pathlib import Path

import pytest

from tgpu.engines.local import scripts
from tgpu.engines.local.scripts import NotAllowed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a script that may run; `outside` beside it has one that may not."""
    for name in ("allowed", "outside", "bin"):
        (tmp_path / name).mkdir()
    a_program(tmp_path / "allowed" / "train.py")
    a_program(tmp_path / "outside" / "evil.py")
    for name in ("python3", "bash", "conda", "uv", "torchrun", "Rscript", "nvidia-smi"):
        a_program(tmp_path / "bin" / name)
    return tmp_path


def a_program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def check(folder: Path, *argv: str, cwd: str = "allowed") -> None:
    variables = {"PATH": str(folder / "bin")}
    scripts.check(argv, str(folder / cwd), variables, [str(folder / "allowed")])


def refused(folder: Path, *argv: str, cwd: str = "allowed") -> NotAllowed:
    with pytest.raises(NotAllowed) as caught:
        check(folder, *argv, cwd=cwd)
    return caught.value


@pytest.mark.parametrize(
    "words",
    [
        "python3 train.py --epochs 3",
        "python3 -u -W ignore -X dev ./train.py -c x",
        "bash -euo pipefail train.py",
        "./train.py",
        "conda run --no-capture-output -n ml python3 train.py",
        "uv run --project . -- python3 train.py",
        "uv run train.py",
        "torchrun --standalone --nproc_per_node=2 train.py",
        "Rscript --vanilla train.py",
    ],
)
def test_a_script_in_an_allowed_folder_may_run(folder, words):
    check(folder, *words.split())


@pytest.mark.parametrize(
    "words",
    [
        "python3 ../outside/evil.py",
        "python3 -u ../outside/evil.py train.py",
        "../outside/evil.py",
        "conda run -n ml python3 ../outside/evil.py",
        "uv run ../outside/evil.py",
        "nvidia-smi",
    ],
)
def test_a_script_elsewhere_may_not(folder, words):
    error = refused(folder, *words.split())
    assert "security.allowed_script_paths" in str(error)
    assert str(folder / "allowed") in str(error)
    assert Path(error.what).is_absolute()


@pytest.mark.parametrize(
    "words",
    [
        "python3 -c pass",
        "python3 -m http.server",
        "python3",
        "python3 -W",
        "bash -c true",
        "bash -xc true",
        "conda install x",
        "conda run --cwd /tmp python3 train.py",
        "conda run -n ml",
        "torchrun --nproc_per_node 2 train.py",
        "Rscript -e 1",
    ],
)
def test_a_command_that_names_no_script_may_not(folder, words):
    assert "does not say which script it runs" in str(refused(folder, *words.split()))


def test_a_program_that_is_not_there_may_not(folder):
    assert str(refused(folder, "mystery")) == "there is no mystery on the job's PATH"


def test_a_link_is_what_it_leads_to(folder):
    (folder / "allowed" / "link.py").symlink_to(folder / "outside" / "evil.py")
    (folder / "outside" / "back.py").symlink_to(folder / "allowed" / "train.py")
    assert refused(folder, "python3", "link.py").what == str(folder / "outside" / "evil.py")
    check(folder, "python3", str(folder / "outside" / "back.py"))


def test_dots_behind_a_link_lead_where_the_kernel_goes(folder):
    # To `outside/..`, and not back into `allowed` as the words alone would say.
    (folder / "outside" / "deep").mkdir()
    (folder / "allowed" / "down").symlink_to(folder / "outside" / "deep")
    assert refused(folder, "python3", "down/../evil.py").what == str(folder / "outside" / "evil.py")


def test_an_allowed_folder_may_be_a_link(folder):
    (folder / "other").symlink_to(folder / "allowed")
    words, variables = ["python3", "train.py"], {"PATH": str(folder / "bin")}
    scripts.check(words, str(folder / "allowed"), variables, [str(folder / "other")])


def test_a_folder_whose_name_begins_alike_is_another(folder):
    (folder / "allowed-not").mkdir()
    refused(folder, "python3", "../allowed-not/x.py")


def test_another_program_by_the_name_of_an_interpreter_is_a_script(folder):
    (folder / "outside" / "python3").symlink_to(folder / "outside" / "evil.py")
    error = refused(folder, "../outside/python3", "train.py")
    assert error.what == str(folder / "outside" / "evil.py")


def test_without_folders_everything_may_run(folder):
    scripts.check(["python3", "-c", "pass"], "/", {}, ())


def test_a_script_that_cannot_be_followed_to_its_end_may_not(folder):
    assert "no such file" in str(refused(folder, "python3", "gone.py"))
    (folder / "allowed" / "loop.py").symlink_to("loop.py")
    refused(folder, "python3", "loop.py")
