"""`tgpu lease`, and `tgpu shell` into one."""

import json
import os

import pytest

from tests.unit.cli.builders import a_gpu, a_job, some_gpus
from tgpu.cli import connect
from tgpu.cli.sessions.leasing import lease_variables
from tgpu.client.target import parse_target


@pytest.fixture
def lease(service):
    held = a_job(
        "12", command=[], state="running", gpus=[0, 1], gpus_per_worker=2, user="", attempt=1
    )
    service.add(held)
    return held


def test_it_prints_what_a_shell_takes_over(tgpu, service, lease):
    outcome = tgpu("lease", "--gpus", "2", "--time", "4h")
    assert outcome.code == 0, outcome.err
    assert outcome.out == (
        "export CUDA_VISIBLE_DEVICES=0,1\n"
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
        "export TGPU_JOB_ID=12\n"
        "export TGPU_GPUS=0,1\n"
    )
    assert "tgpu complete 12" in outcome.err
    body = service.bodies[0]
    assert (body["gpu_count"], body["max_runtime"]) == (2, 14_400)
    assert not body.get("command")


def test_the_same_of_one_that_is_there(tgpu, service, lease):
    answer = json.loads(tgpu("lease", "--of", "12", "--json").out)
    assert answer["variables"]["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert service.bodies == []


def test_a_job_with_a_command_is_no_lease(tgpu, service):
    service.add(a_job("12", command=["x"], state="running"))
    outcome = tgpu("lease", "--of", "12")
    assert outcome.code != 0
    assert "has a command, so it is not a lease" in outcome.err
    assert outcome.out == ""


def test_one_that_waits_has_nothing_to_export(tgpu, service):
    service.add(a_job("12", command=[], state="pending"))
    outcome = tgpu("lease", "--of", "12")
    assert "is pending and has no GPUs" in outcome.err
    assert outcome.out == ""


def test_ctrl_c_while_it_waits_gives_it_up(tgpu, service, lease, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tgpu.cli.sessions.running.wait_until_started", interrupted)
    outcome = tgpu("lease", "--gpus", "2")
    assert (outcome.code, outcome.out) == (130, "")
    assert ("DELETE", "/jobs/12") in service.requests


def test_a_slice_is_named_and_a_part_has_its_share():
    job = a_job("7", command=[], state="running", gpus=[3], gpus_per_worker=0.5)
    gpus = some_gpus(a_gpu(index=3, uuid="MIG-1", slice_of=0))
    found = lease_variables(job, gpus)
    assert found["CUDA_VISIBLE_DEVICES"] == "MIG-1"
    assert (found["TGPU_GPUS"], found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]) == ("3", "50")


def test_a_shell_goes_into_a_lease(tgpu, service, lease, monkeypatch):
    ran: dict[str, object] = {}

    def execvpe(program, words, env):
        ran.update(program=program, words=words, gpus=env["CUDA_VISIBLE_DEVICES"])
        raise KeyboardInterrupt  # nobody comes back from there

    monkeypatch.setattr(os, "execvpe", execvpe)
    near = service.client()
    near.target = parse_target("unix:/s.sock")
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: near)
    outcome = tgpu("shell", "12", "--", "nvidia-smi")
    assert outcome.code == 130, outcome.err
    assert ran == {"program": "nvidia-smi", "words": ["nvidia-smi"], "gpus": "0,1"}
