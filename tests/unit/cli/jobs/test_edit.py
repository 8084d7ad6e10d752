"""`tgpu edit`."""

import pytest

from tests.unit.cli.builders import a_job
from tgpu.cli.failures import Failure
from tgpu.cli.jobs.edit_in_editor import difference, job_text, submit_command


def test_options_become_a_change(tgpu, service):
    service.add(a_job("7", gpus_per_worker=2))
    typed = ("--gpus", "1", "--time", "2h", "--name", "x", "--after", "5,6", "--gpu-mem", "40G")
    outcome = tgpu("edit", "7", *typed, "--type", "any", "--mem", "8G", "--priority", "-3")
    assert outcome.code == 0, outcome.err
    assert service.requests[-1] == ("PATCH", "/jobs/7")
    assert service.bodies[-1] == {
        "gpu_count": 1,
        "max_runtime": 7200,
        "name": "x",
        "after": [{"job_id": "5", "kind": "ok"}, {"job_id": "6", "kind": "ok"}],
        "gpu_memory_mb": 40_960,
        "gpu_type": None,
        "memory_mb": 8192,
        "priority": -3,
    }


def test_what_is_taken_away_is_said(tgpu, service):
    service.add(a_job("7"))
    tgpu("edit", "7", "--no-time", "--no-after", "--deadline", "none", "--gpu-ids", "any")
    assert service.bodies[-1] == {
        "max_runtime": None,
        "after": [],
        "deadline": None,
        "allowed_gpus": [],
    }


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (("--time", "2h", "--no-time"), "exclude each other"),
        (("--gpus", "two"), "--gpus: 'two' is not a number of GPUs"),
        (("--after", "5", "--no-after"), "exclude each other"),
        ((), "there is nothing to change"),
    ],
)
def test_a_mistake_sends_nothing(tgpu, service, typed, sentence):
    service.add(a_job("7"))
    outcome = tgpu("edit", "7", *typed)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert service.bodies == []


def test_the_text_for_an_editor_is_read_back(tgpu):
    job = a_job("7", name="bert", max_runtime_minutes=90, priority=5, gpus_per_worker=2)
    text = job_text(job)
    command = submit_command()
    assert difference(text, text, command) == {}
    edited = text.replace("gpus: 2", "gpus: 1").replace("time: 1h30m\n", "")
    assert difference(text, edited, command) == {"gpus": "1", "no_time": True}
    with pytest.raises(Failure, match="'gpsu' is not a field of a job: did you mean gpus"):
        difference(text, text.replace("gpus:", "gpsu:"), command)
    with pytest.raises(Failure, match="command of a job cannot be changed"):
        difference(text, text + "command: [rm]\n", command)
