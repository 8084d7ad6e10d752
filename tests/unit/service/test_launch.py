"""The environment and the rest of what the engine is given."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_scheduler.core.job import Array, Detail
from gpu_scheduler.core.lifecycle import PENDING, place
from gpu_scheduler.engines.api import Launch
from gpu_scheduler.service.launch import inherited, launch_of
from tests.builders import a_job, a_placement

ASSIGNED = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "TGPU_JOB_ID",
    "TGPU_JOB_NAME",
    "TGPU_TENANT",
    "TGPU_ATTEMPT",
    "TGPU_RESTARTS",
    "TGPU_GPUS",
    "TGPU_GPU_COUNT",
    "TGPU_GPU_TYPE",
    "TGPU_LOG_DIR",
)


def a_launch(
    detail: Detail | None = None,
    base: dict[str, str] | None = None,
    gpus: tuple[int, ...] = (2, 3),
    array: Array | None = None,
    **job: Any,
) -> Launch:
    made = replace(a_job("j1", tenant="vision", gpus=2, **job), array=array)
    progress = place(made.job_id, PENDING, a_placement(*gpus), at=5)
    return launch_of(
        made,
        detail or Detail(name="train", argv=("python", "t.py"), cwd="/data"),
        progress,
        base or {},
        log_dir="/logs/j1/1",
        grace_ms=1500,
        home="/home/me",
    )


def test_the_job_is_told_who_it_is_and_what_it_has() -> None:
    env = a_launch().env
    assert env["CUDA_VISIBLE_DEVICES"] == env["TGPU_GPUS"] == "2,3"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert (env["TGPU_JOB_ID"], env["TGPU_JOB_NAME"]) == ("j1", "train")
    assert (env["TGPU_TENANT"], env["TGPU_GPU_TYPE"]) == ("vision", "A100")
    assert (env["TGPU_ATTEMPT"], env["TGPU_RESTARTS"]) == ("1", "0")
    assert env["TGPU_GPU_COUNT"] == "2"
    assert env["TGPU_LOG_DIR"] == "/logs/j1/1"


def test_the_rest_of_the_launch_is_the_job_s_own() -> None:
    launch = a_launch(time_limit_ms=60_000)
    assert launch.key == ("j1", 1)
    assert (launch.argv, launch.cwd) == (("python", "t.py"), "/data")
    assert (launch.time_limit_ms, launch.grace_ms) == (60_000, 1500)


def test_a_job_without_a_directory_runs_at_home() -> None:
    assert a_launch(Detail(argv=("true",))).cwd == "/home/me"


def test_the_job_s_own_variables_win_over_the_submitter_s() -> None:
    detail = Detail(argv=("true",), env=(("A", "job"), ("B", "job")))
    env = a_launch(detail, base={"A": "shell", "C": "shell"}).env
    assert (env["A"], env["B"], env["C"]) == ("job", "job", "shell")


@pytest.mark.parametrize("name", ASSIGNED)
def test_what_the_scheduler_assigns_wins_over_everybody(name: str) -> None:
    detail = Detail(name="train", argv=("true",), env=((name, "forged"),))
    forged = a_launch(detail, base={name: "stale"}).env
    assert forged[name] == a_launch().env[name]


def test_an_element_of_an_array_knows_its_place() -> None:
    env = a_launch(array=Array("7", 4)).env
    assert (env["TGPU_ARRAY_ID"], env["TGPU_ARRAY_INDEX"]) == ("7", "4")


def test_a_job_outside_arrays_has_no_place_in_one() -> None:
    assert "TGPU_ARRAY_ID" not in a_launch().env
    assert "TGPU_ARRAY_INDEX" not in a_launch().env


def test_a_sweep_s_parameters_are_variables_too_and_win() -> None:
    detail = Detail(argv=("t",), params=(("lr", "0.1"),), env=(("TGPU_PARAM_lr", "9"),))
    assert a_launch(detail).env["TGPU_PARAM_lr"] == "0.1"


def test_nothing_is_inherited_from_a_surrounding_job_and_the_rest_is() -> None:
    outer = a_launch(
        Detail(argv=("t",), params=(("lr", "0.1"),)), {"PATH": "/bin"}, array=Array("7", 4)
    ).env
    inner = a_launch(base=inherited({**outer, "TGPU_URL": "http://127.0.0.1:1"})).env
    left = {name for name in inner if name.startswith(("TGPU_ARRAY", "TGPU_PARAM"))}
    assert left == set()
    assert inner["TGPU_JOB_ID"] == "j1"
    assert inner["PATH"] == "/bin"
    assert inner["TGPU_URL"] == "http://127.0.0.1:1"  # how to reach the service is no job's own
