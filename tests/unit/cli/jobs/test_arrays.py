"""show, why, logs, receipt and wait of a whole array, against the fake service."""

import json

import pytest

from tests.unit.cli.builders import a_job, a_reason, an_ended_job
from tgpu.wire.arrays_v1 import ArraySummary


def an_array(**changes: object) -> ArraySummary:
    facts: dict[str, object] = {
        "array_id": "7",
        "tenant_id": "default",
        "name": "sweep",
        "user": "ada",
        "state": "failed",
        "is_over": True,
        "total": 4,
        "states": {"completed": 2, "failed": 2},
        "indexes": "1-4",
        "max_running": 2,
        "command": ["train"],
        "params": {"lr": ["1", "2"]},
        "gpu_count": 1,
        "exit_codes": {"0": 2, "3": 2},
        "exit_code": 3,
        "failed": ["7.2", "7.3"],
        "failed_indexes": "2-3",
        "next_waiting": None,
        "rerun_of": None,
        "submitted_at": "2023-11-14T22:00:00Z",
        "started_at": "2023-11-14T22:00:01Z",
        "ended_at": "2023-11-14T22:03:21Z",
        "run_seconds": 400,
        "gpu_hours": 0.1111,
        "lost_gpu_hours": 0,
        "cost": 0.22,
    }
    return ArraySummary.model_validate(facts | changes)


def test_an_array_is_shown_with_counts_codes_and_what_failed(tgpu, service):
    service.arrays["7"] = an_array()
    out = tgpu("show", "7").out
    assert "7, 4 jobs: indexes 1-4, 2 at once" in out
    assert "failed: 2 completed, 2 failed" in out
    assert "exit 0: 2, exit 3: 2" in out
    assert "indexes 2-3 (7.2, 7.3); tgpu rerun 7" in out
    assert json.loads(tgpu("show", "7", "--json").out)["failed_indexes"] == "2-3"


def test_a_receipt_of_an_array_adds_up_all_its_jobs(tgpu, service):
    service.arrays["7"] = an_array()
    out = tgpu("receipt", "7").out
    assert "6m40s of all jobs together" in out
    assert "0.1111" in out


@pytest.mark.parametrize(("code", "is_over"), [(3, True), (124, False)])
def test_waiting_for_an_array_returns_its_highest_code(tgpu, service, code, is_over):
    service.arrays["7"] = an_array(is_over=is_over)
    outcome = tgpu("wait", "7", "--timeout", "0.01s")
    assert outcome.code == code
    line = "array 7: 2 completed, 2 failed (exit 3: 2) after 3m20s"
    assert line in (outcome.out if is_over else outcome.err)


def test_why_is_that_of_the_next_in_line(tgpu, service):
    service.add(a_job("7.3", reason=a_reason("needs 4 A100; 3 free")))
    service.arrays["7"] = an_array(states={"running": 2, "pending": 2}, next_waiting="7.3")
    out = tgpu("why", "7").out
    assert out.startswith("array 7: 2 running, 2 pending\njob 7.3 waits: needs 4 A100")
    service.arrays["7"] = an_array()
    assert tgpu("why", "7").out == "array 7: 2 completed, 2 failed\n"


def test_logs_of_an_array_have_the_job_before_each_line(tgpu, service):
    array = {"array_id": "7", "index": 1, "max_running": None}
    service.add(
        an_ended_job("7.10", array=array),
        an_ended_job("7.9", array=array),
        a_job("7.11", array=array),
    )
    service.logs = {("7.9", "stdout"): b"a\nb", ("7.10", "stdout"): b"c\n"}
    service.arrays["7"] = an_array(total=3)
    outcome = tgpu("logs", "7")
    assert outcome.out == "7.9: a\n7.9: b\n7.10: c\n"
    assert "1 of 3 jobs have not started" in outcome.err
    assert [log["job_id"] for log in json.loads(tgpu("logs", "7", "--json").out)] == ["7.9", "7.10"]
    followed = tgpu("logs", "-f", "7")
    assert followed.code == 2
    assert "7 is an array of 3 jobs: the log of one job can be followed" in followed.err


@pytest.mark.parametrize("command", ["show", "why", "logs", "receipt", "wait"])
def test_what_is_neither_job_nor_array_is_no_job(tgpu, command):
    outcome = tgpu(command, "99")
    assert outcome.code == 4
    assert "no job named '99'" in outcome.err


def test_the_command_of_a_sweep_has_the_names_of_its_parameters(tgpu, service):
    service.arrays["7"] = an_array(command=["train", "--lr=1"])
    assert "train '--lr={lr}'" in tgpu("show", "7").out
