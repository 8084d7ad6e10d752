"""What happens to GPUs, seen from the command line, with real processes on simulated GPUs."""

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

from tests.acceptance.cli.conftest import Box
from tests.real_service import eventually
from tests.unit.service.processes import a_process


@pytest.fixture
def quick_box(box: Box) -> Box:
    box.environ |= {
        "GPU_SCHEDULER_GPUS": "sim:2xA100",
        "GPU_SCHEDULER_DEVICES_MONITOR_INTERVAL_SECONDS": "0.2",
        "GPU_SCHEDULER_ENGINE_GRACE_SECONDS": "1",
    }
    box.ok("start")
    return box


def simulate(box: Box, gpus: Mapping[int, Mapping[str, object]]) -> None:
    new = box.data_dir / "simulated-gpus.new"
    new.write_text(json.dumps({"gpus": gpus}))
    new.rename(box.data_dir / "simulated-gpus.json")


def gpu(box: Box, index: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(box.ok("gpus", "--json"))["gpus"][index]
    return found


def job(box: Box, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(box.ok("show", job_id, "--json"))
    return found


def test_a_process_of_others_keeps_its_gpu_and_can_be_adopted(quick_box: Box) -> None:
    box = quick_box
    with a_process() as other:
        simulate(box, {0: {"processes": [{"pid": other.pid, "memory_mib": 70_000}]}})
        eventually(lambda: gpu(box, 0)["status"] == "foreign", "the GPU to be in foreign hands")
        (process,) = gpu(box, 0)["processes"]
        assert (process["pid"], process["job_id"]) == (other.pid, None)
        assert process["user"]
        assert process["age_seconds"] >= 0
        assert f"pid {other.pid}" in box.ok("gpus")
        box.ok("submit", "--lease", "--gpus", "2")
        assert "1 used by other programs" in box.ok("why", "last")
        box.ok("cancel", "last")
        adopted = json.loads(box.ok("adopt", str(other.pid), "--node", "local", "--json"))
        assert (adopted["state"], adopted["gpus"]) == ("running", [0])
        eventually(lambda: gpu(box, 0)["status"] == "busy", "the GPU to be the lease's")
    simulate(box, {})
    lease = adopted["job_id"]
    eventually(lambda: job(box, lease)["state"] == "completed", "the lease to end")
    eventually(lambda: gpu(box, 0)["status"] == "free", "the GPU to be free")


def test_adopting_what_is_on_no_gpu_says_so(quick_box: Box) -> None:
    run = quick_box.tgpu("adopt", str(os.getpid()))
    assert run.returncode != 0
    assert "this process uses no GPU" in run.stderr


def test_what_a_job_runs_is_the_job_s(quick_box: Box) -> None:
    box = quick_box
    box.ok("submit", "--", "sh", "-c", "sleep 600; true")
    eventually(lambda: job(box, "last")["state"] == "running", "the job to run")
    found = job(box, "last")
    simulate(box, {0: {"processes": [{"pid": found["pid"], "memory_mib": 70_000}]}})
    eventually(lambda: bool(gpu(box, 0)["processes"]), "the process to be seen")
    assert gpu(box, 0)["processes"][0]["job_id"] == found["job_id"]
    assert gpu(box, 0)["status"] == "busy"
    box.ok("cancel", "last")


def test_a_gpu_with_a_survivor_is_kept_back_until_that_is_gone(quick_box: Box) -> None:
    box = quick_box
    box.ok("submit", "--gpus", "2", "--", "sh", "-c", "env; sleep 600")
    eventually(lambda: "TGPU_LOG_DIR=" in box.ok("logs", "last"), "the job to tell its variables")
    lines = (line.partition("=") for line in box.ok("logs", "last").splitlines())
    mark = {name: value for name, _, value in lines if name.startswith("TGPU_")}
    with a_process(mark, stubborn=True) as left:
        simulate(box, {0: {"processes": [{"pid": left.pid, "memory_mib": 100}]}})
        eventually(lambda: bool(gpu(box, 0)["processes"]), "the process to be seen")
        box.ok("cancel", "last")
        eventually(lambda: job(box, "last")["state"] == "cancelled", "the job to end")
        problem = f"quarantined: process {left.pid} of job {job(box, 'last')['job_id']}"
        eventually(lambda: left.poll() == -9, "the survivor to be killed")
        # By now it may be over: the log keeps what was.
        assert problem in (box.data_dir / "service.log").read_text()
    simulate(box, {})
    eventually(lambda: gpu(box, 0)["status"] == "free", "the GPU to be free")


def test_an_error_is_the_cause_of_a_failed_job_and_the_gpu_is_on_probation(quick_box: Box) -> None:
    box = quick_box
    box.ok("submit", "--", "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; exit 3")
    eventually(lambda: job(box, "last")["state"] == "running", "the job to run")
    simulate(box, {0: {"xids": [79]}})
    (box.root / "go").touch()
    eventually(lambda: job(box, "last")["state"] == "failed", "the job to fail")
    assert job(box, "last")["cause"] == "GPU 0: Xid 79, fell off the bus (exit code 3)"
    eventually(lambda: "on probation" in gpu(box, 0)["problem"], "the probation to begin")
    box.ok("resume-gpu", "0")
    assert gpu(box, 0)["status"] == "free"
