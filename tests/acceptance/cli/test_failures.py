"""Failures with their causes, from real processes to what people read."""

import json
from typing import Any

import pytest

from tests.acceptance.cli.conftest import Box
from tests.real_service import eventually
from tgpu.devices.control_groups import GroupTree, memory_tree

OUT_OF_MEMORY = "raise RuntimeError('CUDA out of memory. Tried to allocate 20.00 GiB')"


def failed(box: Box, *arguments: str) -> dict[str, Any]:
    """The job after it ran and failed."""
    box.ok("submit", "-q", *arguments)
    assert box.tgpu("wait", "last").returncode != 0
    found: dict[str, Any] = json.loads(box.ok("show", "last", "--json"))
    return found


@pytest.mark.parametrize(
    ("arguments", "failure", "cause"),
    [
        (["--", "sh", "-c", "exit 3"], "user_error", "exit code 3"),
        (
            ["--", "python3", "-c", "import nothing_of_this_name"],
            "user_error",
            "ModuleNotFoundError: No module named 'nothing_of_this_name'",
        ),
        (["--", "python3", "-c", OUT_OF_MEMORY], "cuda_out_of_memory", "out of GPU memory (exit"),
        (["--", "python3", "-c", "raise MemoryError"], "host_out_of_memory", "out of main memory"),
        (["--time", "1s", "--", "sleep", "600"], "time_limit", "time limit of 1 s reached"),
    ],
    ids=["exit", "traceback", "CUDA", "memory", "time"],
)
def test_a_job_says_why_it_failed(
    shared_box: Box, arguments: list[str], failure: str, cause: str
) -> None:
    job = failed(shared_box, *arguments)
    assert job["failure"] == failure
    assert cause in job["cause"]
    assert f"{failure}: " in shared_box.ok("show", "last")
    assert cause in shared_box.ok("list", "--state", "failed")


def test_an_xid_is_the_gpu_s_fault_and_is_retried_free(box: Box) -> None:
    box.environ |= {"GPU_SCHEDULER_DEVICES_MONITOR_INTERVAL_SECONDS": "0.2"}
    box.ok("start")
    script = (
        "test $TGPU_RESTARTS != 0 || { touch began; until test -e go; do sleep 0.1; done; exit 1; }"
    )
    box.ok("submit", "-q", "--requeue", "--", "sh", "-c", script)
    eventually((box.root / "began").exists, "the job to begin")
    (index,) = json.loads(box.ok("show", "last", "--json"))["gpus"]
    new = box.data_dir / "simulated-gpus.new"
    new.write_text(json.dumps({"gpus": {index: {"xids": [79]}}}))
    new.rename(box.data_dir / "simulated-gpus.json")
    eventually(
        lambda: json.loads(box.ok("gpus", "--json"))["gpus"][index]["status"] == "problem",
        "the GPU to be out of order",
    )
    (box.root / "go").touch()
    assert box.tgpu("wait", "last").returncode == 0
    first, second = json.loads(box.ok("receipt", "last", "--json"))["attempts"]
    assert (first["failure"], second["failure"]) == ("xid", None)
    assert first["gpus"] != second["gpus"]


def test_rerun_sends_again_what_failed_and_a_receipt_says_what_it_took(box: Box) -> None:
    box.ok("start")
    job = failed(box, "--gpus", "2", "--", "sh", "-c", "sleep 0.05; test -e mended")
    (box.root / "mended").touch()
    assert f"runs job {job['job_id']} again" in box.ok("rerun", "--failed", "--since", "1h")
    assert box.tgpu("wait", "last").returncode == 0
    receipt = json.loads(box.ok("receipt", "last", "--json"))
    assert (receipt["state"], receipt["gpu_count"], len(receipt["attempts"])) == ("completed", 2, 1)
    assert receipt["gpu_hours"] > 0
    assert "GPU-hours" in box.ok("receipt", "last")


@pytest.mark.skipif(
    not isinstance(memory_tree(), GroupTree), reason=f"no groups that limit memory: {memory_tree()}"
)
def test_a_job_over_the_memory_of_a_whole_job_says_so(box: Box) -> None:
    config = box.root / "settings.yaml"
    config.write_text("security:\n  max_memory_per_job_gb: 0.125\n")
    box.ok("start", "--config", str(config))
    script = "x = bytearray(b'x') * (256 << 20)"
    job = failed(box, "--", "sh", "-c", f'python3 -c "{script}"; exit 7')
    assert job["failure"] == "host_out_of_memory"
    assert job["cause"].endswith("the whole job may use 128 MiB")
    assert "applies to the whole job" in box.tgpu("doctor").stdout
