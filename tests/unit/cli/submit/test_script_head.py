"""`tgpu submit train.sh`, with options in its head."""

import io

import pytest

HEAD = """#!/bin/bash
#TGPU --gpus 2 --time 2h   # as on the command line
# a comment
#TGPU --env A=1 --env B=2

#TGPU --gpus 3
echo "$0" "$@"
#TGPU --gpus 9
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_file(text: str, name: str = "train.sh", mode: int = 0o644) -> str:
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
        return name

    return write_file


def test_options_stand_in_the_head_and_the_text_goes_along(tgpu, service, write, tmp_path):
    outcome = tgpu("submit", write(HEAD), "one", "--two")
    assert outcome.code == 0, outcome.err
    (body,) = service.bodies
    assert (body["gpu_count"], body["max_runtime"]) == (3, 7200)
    assert body["environment"] == {"A": "1", "B": "2"}
    script = str(tmp_path / "train.sh")
    assert body["command"] == ["/bin/bash", "-c", HEAD, script, "one", "--two"]
    assert body["name"] == "train.sh"
    assert "echo" not in outcome.out


def test_what_is_typed_goes_before_the_head(tgpu, service, write):
    assert tgpu("submit", "--gpus", "1", "--env", "B=9", "--name", "x", write(HEAD)).code == 0
    (body,) = service.bodies
    assert (body.get("gpu_count", 1), body["name"]) == (1, "x")
    assert body["environment"] == {"A": "1", "B": "9"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--gpsu 2", "train.sh, line 2: there is no option --gpsu; did you mean --gpus?"),
        ("--priority high", "train.sh, line 2: --priority: must be a whole number, higher"),
        ("--hold=3", "train.sh, line 2: --hold takes no value"),
        ("--time", "train.sh, line 2: --time needs a value"),
        ("--workers many", "train.sh, line 2: --workers: "),
        ("--gpus two", "train.sh, line 2: --gpus: 'two' is not a number of GPUs"),
        ("--gpus 2 python", "train.sh, line 2: 'python' is not an option"),
        ("--name 'x", "train.sh, line 2: a quote is not closed"),
        ("--json", "train.sh, line 2: --json is for the command line"),
    ],
)
def test_a_mistake_names_the_line(tgpu, service, write, line, sentence):
    outcome = tgpu("submit", write(f"#!/bin/sh\n#TGPU {line}\ntrue\n"))
    assert outcome.code == 2
    assert sentence in outcome.err
    assert service.bodies == []


def test_by_path_it_is_run_from_where_it_lies(tgpu, service, write, tmp_path):
    assert tgpu("submit", "--by-path", write(HEAD), "one").code == 0
    assert service.bodies[0]["command"] == ["/bin/bash", str(tmp_path / "train.sh"), "one"]
    assert "--by-path needs a script" in tgpu("submit", "--by-path", "--", "x").err


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("#!/usr/bin/env bash", ["bash", "-c"]),
        ("#!/usr/bin/env -S bash -e", ["bash", "-e", "-c"]),
        ("#!/usr/bin/env -S X=1 sh", ["/usr/bin/env", "X=1", "sh", "-c"]),
        ("#!/bin/bash -l", ["/bin/bash", "-l", "-c"]),
        ("# no interpreter", ["bash", "-c"]),
    ],
)
def test_the_first_line_names_the_shell(tgpu, service, write, first, words):
    assert tgpu("submit", write(f"{first}\n#TGPU --gpus 2\ntrue\n")).code == 0
    assert service.bodies[0]["command"][: len(words)] == words


def test_a_script_of_python_stays_beside_its_modules(tgpu, service, write, tmp_path):
    text = "#!/usr/bin/env python3\n#TGPU --gpus 2\nimport beside\n"
    assert tgpu("submit", write(text, "train.py"), "--lr", "1").code == 0
    assert service.bodies[0]["command"] == ["python3", str(tmp_path / "train.py"), "--lr", "1"]


def test_a_program_stays_the_command_it_was(tgpu, service, write):
    assert tgpu("submit", "./" + write("#!/bin/sh\ntrue\n", mode=0o755), "a").code == 0
    assert tgpu("submit", "sh", "train.sh").code == 0
    assert tgpu("submit", "--", "./train.sh").code == 0
    commands = [body["command"] for body in service.bodies]
    assert commands == [["./train.sh", "a"], ["sh", "train.sh"], ["./train.sh"]]


def test_a_script_that_could_not_be_run_as_a_command_is_one(tgpu, service, write):
    assert tgpu("submit", write("#!/bin/sh\ntrue\n")).code == 0
    assert service.bodies[0]["command"][:2] == ["/bin/sh", "-c"]


def test_options_for_slurm_are_not_read_and_that_is_said(tgpu, service, write):
    outcome = tgpu("submit", write("#!/bin/sh\n#SBATCH --gres=gpu:2\ntrue\n"))
    assert "#SBATCH lines are not read" in outcome.err
    assert outcome.code == 0


def test_a_sweep_never_changes_a_variable_of_the_script(tgpu, service, write):
    outcome = tgpu("submit", "--param", "lr=1,2", write("#!/bin/sh\necho ${lr}\n"))
    assert outcome.code == 2
    assert "$TGPU_PARAM_lr" in outcome.err
    assert service.bodies == []


def test_a_script_too_long_to_send_says_what_to_do(tgpu, service, write):
    outcome = tgpu("submit", write("#!/bin/sh\n" + "true\n" * 30_000))
    assert outcome.code == 2
    assert "--by-path" in outcome.err


def test_a_script_from_standard_input(tgpu, service, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(HEAD.encode())))
    assert tgpu("submit", "-", "x").code == 0
    assert service.bodies[0]["command"] == ["/bin/bash", "-c", HEAD, "stdin", "x"]
