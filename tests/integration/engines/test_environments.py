"""Jobs in conda, venv and uv environments: they run there, and end with all their processes."""

import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_service import RealService, eventually

# As the real ones do: the command is a child of theirs, not in their place.
FAKE_CONDA = """\
#!/bin/sh
echo "$@" >> {log}
[ "$1 $2 $3" = "run --no-capture-output -n" ] || exit 9
export CONDA_DEFAULT_ENV="$4"
shift 4
"$@" &
wait $!
"""
FAKE_UV = """\
#!/bin/sh
[ "$1 $2 $4" = "run --project --" ] || exit 9
export UV_PROJECT="$3"
shift 4
"$@"
"""


def a_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    a_program(tmp_path / "bin" / "conda", FAKE_CONDA.format(log=tmp_path / "conda.log"))
    a_program(tmp_path / "bin" / "uv", FAKE_UV)
    return tmp_path / "bin"


@pytest.fixture
def service(tmp_path: Path, tools: Path) -> Iterator[RealService]:
    environ = {"PATH": f"{tools}:/usr/bin:/bin"}
    with RealService(tmp_path / "service", environ=environ) as made:
        yield made.start()


def test_a_command_runs_in_its_conda_environment_word_for_word(
    service: RealService, tmp_path: Path
) -> None:
    odd = "a b;'$(exit 3)'"
    job_id = service.submit('echo "$CONDA_DEFAULT_ENV" > out; exit 4', conda="ml_env")
    assert service.end(job_id)["exit_code"] == 4
    assert service.lines("out") == ["ml_env"]
    echo = {"command": ["printf", "%s", odd], "working_dir": str(service.work), "conda": "ml"}
    other = service.post("/jobs", echo)["job_id"]
    assert service.end(other)["state"] == "completed"
    assert service.http.get(f"/api/v1/jobs/{other}/logs").text == odd


def test_all_of_a_job_in_an_environment_ends_when_it_is_cancelled(service: RealService) -> None:
    job_id = service.submit("touch up; sleep 600 & sleep 600", conda="ml_env")
    service.running(job_id)
    eventually(lambda: (service.work / "up").exists(), "the command to run")
    assert len(service.processes_of(job_id)) >= 3
    service.cancel(job_id)
    assert service.end(job_id)["state"] == "cancelled"
    assert service.processes_of(job_id) == []


def test_a_command_runs_in_its_uv_project(service: RealService, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pyproject.toml").touch()
    job_id = service.submit('echo "$UV_PROJECT" > out', uv=str(tmp_path / "project"))
    assert service.end(job_id)["state"] == "completed"
    assert service.lines("out") == [str(tmp_path / "project")]


def test_a_command_runs_with_the_python_of_its_venv(service: RealService, tmp_path: Path) -> None:
    made = tmp_path / "venv"
    venv.create(made, with_pip=False, symlinks=True)
    program = "import os, sys; print(sys.prefix, os.environ['VIRTUAL_ENV'], sep='\\n')"
    body = {
        "command": ["python", "-c", program],
        "working_dir": str(tmp_path),
        "venv": "venv",
    }
    job_id = service.post("/jobs", body)["job_id"]
    assert service.end(job_id)["state"] == "completed"
    assert service.http.get(f"/api/v1/jobs/{job_id}/logs").text.split() == [str(made)] * 2
    assert str(made) != sys.prefix


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("venv", "nowhere", "/nowhere/bin/python"),
        ("uv", "nowhere", "/nowhere/pyproject.toml"),
        ("conda", "./nowhere", "/nowhere"),
    ],
)
def test_a_job_in_an_environment_that_is_not_there_fails_and_says_so(
    service: RealService, field: str, value: str, words: str
) -> None:
    job_id = service.submit("touch ran", **{field: value})
    ended = service.end(job_id)
    assert (ended["state"], ended["exit_code"], ended["attempt"]) == ("failed", None, 1)
    assert ended["cause"].startswith(f"{field} {value}: ")
    assert words in ended["cause"]
    assert not (service.work / "ran").exists()


@pytest.mark.parametrize("field", ["conda", "venv", "uv"])
def test_what_cannot_be_an_environment_is_refused_when_submitted(
    service: RealService, field: str
) -> None:
    answer = service.http.post("/api/v1/jobs", json=service.request("true", **{field: "-x"}))
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith(f"{field}: ")
