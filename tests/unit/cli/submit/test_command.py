import json

import httpx
import pytest

from tests.unit.cli.builders import a_job, an_ended_job


def test_a_job_is_queued_and_the_next_step_named(tgpu, service):
    outcome = tgpu("submit", "--gpus", "2", "--priority", "5", "--", "python", "train.py")
    assert outcome.out == "job 12 queued: 2 GPUs, python train.py\n"
    assert "tgpu logs -f 12" in outcome.err
    assert service.bodies[0]["priority"] == 5


def test_the_command_s_own_options_are_left_alone(tgpu, service):
    tgpu("submit", "--gpus", "1", "python", "train.py", "--gpus", "9", "--help")
    assert service.bodies[0]["command"] == ["python", "train.py", "--gpus", "9", "--help"]


def test_the_environment_and_the_directory_go_along(tgpu, service, monkeypatch, tmp_path):
    monkeypatch.setenv("MY_FLAG", "1")
    monkeypatch.chdir(tmp_path)
    tgpu("submit", "--", "x")
    assert service.bodies[0]["base_environment"]["MY_FLAG"] == "1"
    assert service.bodies[0]["working_dir"] == str(tmp_path)


def test_a_link_that_the_shell_followed_stays_in_the_path(tgpu, service, monkeypatch, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "link")
    monkeypatch.setenv("PWD", str(tmp_path / "link"))
    tgpu("submit", "--", "x")
    assert service.bodies[0]["working_dir"] == str(tmp_path / "link")


def test_quiet_prints_the_id_alone(tgpu):
    assert tgpu("submit", "-q", "--", "x").out == "12\n"


def test_json_is_the_answer_of_the_api(tgpu):
    assert json.loads(tgpu("submit", "--json", "--", "x").out)["job_id"] == "12"


def test_warnings_of_the_scheduler_are_passed_on(tgpu):
    assert "note: think twice" in tgpu("submit", "--", "x").err


@pytest.mark.parametrize("arguments", [(), ("--",), ("--gpus", "1")])
def test_no_command_is_bad_input_and_nothing_is_sent(tgpu, service, arguments):
    outcome = tgpu("submit", *arguments)
    assert outcome.code == 2
    assert "--lease" in outcome.err
    assert service.requests == []


def test_a_refusal_speaks_of_the_option_and_not_of_the_field(tgpu, service):
    service.refusal = (422, "VALIDATION_ERROR", "gpu_count: at most 4 GPUs are here (got '99')")
    assert tgpu("submit", "--gpus", "99", "--", "x").err.startswith("tgpu: --gpus: at most 4")


def test_a_lost_connection_is_not_tried_again(tgpu, service):
    service.broken = httpx.ReadError("reset")
    outcome = tgpu("submit", "--", "x")
    assert outcome.code == 3
    assert "check with `tgpu list`" in outcome.err
    assert service.requests == [("POST", "/jobs")]


def test_a_job_with_an_id_may_be_sent_again_safely(tgpu, service):
    service.broken = httpx.ReadError("reset")
    assert "run the same command again" in tgpu("submit", "--id", "mine", "--", "x").err


def test_waiting_shows_the_output_and_returns_the_job_s_code(tgpu, service):
    service.add(an_ended_job("12", state="failed", exit_code=7))
    service.logs = {("12", "stdout"): b"loss 0.1\n", ("12", "stderr"): b"warning\n"}
    outcome = tgpu("submit", "--wait", "--", "x")
    assert outcome.code == 7
    assert outcome.out == "loss 0.1\n"
    assert "warning\n" in outcome.err
    assert "job 12 failed (exit 7)" in outcome.err


def test_after_last_is_resolved_before_it_is_sent(tgpu, service):
    service.add(a_job("41"))
    tgpu("submit", "--after", "last", "--", "x")
    assert service.bodies[-1]["after"] == [{"job_id": "41"}]
