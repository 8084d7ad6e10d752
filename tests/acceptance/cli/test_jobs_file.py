"""Jobs from a file, scripts by `tgpu add` and sizes by models, as people type them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli.conftest import Box
from tests.real_service import eventually

SIZES = {
    "default_requirement": 1.0,
    "models": {
        "qwen2.5-3b-inst": 0.5,
        "qwen2.5-7b-inst": 1.0,
        "qwen2.5-32b-inst": 2.0,
        "qwen2.5-vl-*": {"gpus": 2.0, "memory_gb": 60},
    },
}
SCRIPT = """\
import argparse, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--cuda", default="none")
parser.add_argument("--llm")
parser.add_argument("--mode")
given = parser.parse_args()
print(given.llm, given.mode, given.cuda == os.environ["CUDA_VISIBLE_DEVICES"])
"""


@pytest.fixture
def folder(box: Box) -> Path:
    """The files of the document, in the user's own directory."""
    (box.root / "evaluate.py").write_text(SCRIPT)
    (box.root / "llm_config.json").write_text(json.dumps(SIZES))
    settings = {
        "api": {"http_port": 0},  # the socket is enough, and a port may be taken
        "files": {
            "jobs_file": "jobs.txt",
            "llm_config_file": "llm_config.json",
            "monitor_interval_s": 30.0,
        },
        "jobs": {"max_assignment_attempts": 5, "assignment_retry_wait_s": 5.0},
    }
    (box.root / "config.json").write_text(json.dumps(settings))
    return box.root


def test_lines_of_the_jobs_file_run_as_they_are_written(box: Box, folder: Path) -> None:
    file = folder / "jobs.txt"
    file.write_text(
        "# Priority, Script, Conda_Env, Arguments, Allowed_GPUs\n"
        "0,evaluate.py,,--llm qwen2.5-3b-inst --mode test,0-3\n"
        "9,evaluate.py,,,\n"
    )
    box.ok("start", "--config", "config.json")
    box.ok("wait", eventually(lambda: first_job(box), "the first line to be taken"))
    assert box.ok("logs", "1") == "qwen2.5-3b-inst test True\n"
    job = json.loads(box.ok("show", "1", "--json"))
    assert (job["gpu_count"], job["priority"]) == (0.5, 1500)
    with file.open("a") as more:
        more.write("2,evaluate.py,,--llm qwen2.5-32b-inst,2,3\n")
    eventually(lambda: len(states(box)) == 3, "the new line to be taken")
    eventually(lambda: states(box)[4] == "completed", "the new line to run")
    assert json.loads(box.ok("show", "2", "--json"))["gpus"] == [2, 3]
    checked = box.tgpu("jobs-file", "check")
    assert checked.returncode == 1
    assert f"{file}:3: priority must be 0 (high), 1 (normal) or 2 (low)" in checked.stdout
    assert "priority must be" in box.ok("jobs-file", "list")


def first_job(box: Box) -> str | None:
    found = json.loads(box.ok("jobs-file", "list", "--json"))
    job_id: str | None = found["lines"][0]["job_id"] if found["lines"] else None
    return job_id


def states(box: Box) -> dict[int, str | None]:
    found = json.loads(box.ok("jobs-file", "list", "--json"))
    return {line["line"]: line["state"] for line in found["lines"]}


def test_add_queues_a_script_as_the_document_says(box: Box, folder: Path) -> None:
    box.ok("start", "--config", "config.json")
    arguments = ["--args", "--llm qwen2.5-7b-inst --mode test", "--priority", "1", "--gpus", "0,1"]
    run = box.tgpu("add", str(folder / "evaluate.py"), *arguments, "--wait")
    assert (run.returncode, run.stdout) == (0, "qwen2.5-7b-inst test True\n")
    assert "1 GPU for qwen2.5-7b-inst" in run.stderr
    job = json.loads(box.ok("show", "last", "--json"))
    assert (job["priority"], job["gpu_count"]) == (750, 1)
    assert job["gpus"][0] in (0, 1)


def test_add_runs_in_a_conda_environment(box: Box, folder: Path) -> None:
    conda = folder / "bin" / "conda"
    conda.parent.mkdir()
    conda.write_text('#!/bin/sh\nshift 4\nexec "$@"\n')
    conda.chmod(0o755)
    (folder / "run.sh").write_text("echo ran $1\n")
    path = f"{conda.parent}:{box.environ['PATH']}"
    out = box.ok("add", "run.sh", "--args", "well", "--conda", "ml_env", "--wait", PATH=path)
    assert out == "ran well\n"
    shown = json.loads(box.ok("show", "last", "--json"))
    assert shown["command"][0] == "bash"
    assert shown["runs_in"] == "conda ml_env"


def test_a_job_whose_environment_is_not_there_fails_and_says_so(box: Box) -> None:
    run = box.tgpu("submit", "--venv", "nowhere", "--wait", "--", "python", "x.py")
    assert run.returncode != 0
    for command in ("show", "why"):
        assert "venv nowhere: there is no" in box.ok(command, "last")
    refused = box.tgpu("submit", "--venv=-x", "--", "python", "x.py")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("tgpu: --venv: ")


def test_a_model_is_sized_by_the_table_and_beyond_it_by_its_name(box: Box, folder: Path) -> None:
    box.ok("start", "--config", "config.json")
    assert box.ok("size", "qwen2.5-vl-7b").startswith("qwen2.5-vl-7b: 2 GPUs, 60G of memory (by ")
    estimate = box.ok("size", "meta/llama-70b-int4").splitlines()
    assert estimate[0] == "meta/llama-70b-int4: 0.49 GPU (estimated from the name)"
    assert estimate[1].strip() == "70 billion parameters x 4 bits (by its name) = 33379 MiB"
    answer = json.loads(box.ok("size", "llama-70b", "--json"))
    assert (answer["size"]["gpu_count"], answer["learned"]) == (2, None)


def test_auto_takes_the_size_by_the_model_that_a_command_names(box: Box, folder: Path) -> None:
    box.ok("start", "--config", "config.json")
    run = box.tgpu("submit", "--auto", "--wait", "--", "echo", "--llm", "qwen2.5-32b-inst")
    assert run.returncode == 0, run.stderr
    assert json.loads(box.ok("show", "last", "--json"))["gpu_count"] == 2
    nameless = box.tgpu("submit", "--auto", "--", "echo")
    assert nameless.returncode == 2
    assert "names no model" in nameless.stderr


def test_the_memory_of_past_runs_is_shown_and_decides_with_auto(box: Box) -> None:
    box.environ["GPU_SCHEDULER_DEVICES_MONITOR_INTERVAL_SECONDS"] = "0.1"
    box.ok("submit", "--", "sh", "-c", "sleep 600", "--llm", "mistral-7b")
    job = eventually(lambda: running(box), "the job to run")
    state = {
        "gpus": {str(job["gpus"][0]): {"processes": [{"pid": job["pid"], "memory_mib": 40000}]}}
    }
    new = box.data_dir / "new.json"
    new.write_text(json.dumps(state))
    new.replace(box.data_dir / "simulated-gpus.json")
    eventually(lambda: learned(box), "the peak to be seen")
    shown = box.ok("size", "mistral-7b")
    assert "past runs: 0.54 GPU (1 run)" in shown
    assert "highest peak of 1 past run: 40000 MiB" in shown
    box.ok("stop")
    box.ok("submit", "--auto", "--", "echo", "--model=org/Mistral-7B")
    assert json.loads(box.ok("show", "last", "--json"))["gpu_count"] == 0.54


def running(box: Box) -> dict[str, Any] | None:
    job: dict[str, Any] = json.loads(box.ok("show", "last", "--json"))
    return job if job["state"] == "running" else None


def learned(box: Box) -> bool:
    return json.loads(box.ok("size", "mistral-7b", "--json"))["learned"] is not None
