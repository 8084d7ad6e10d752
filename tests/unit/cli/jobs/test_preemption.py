"""checkpoint and preemptions against a service that answers from memory."""

import json

import httpx
import pytest

from tgpu.wire.preemptions_v1 import PreemptionList, PreemptionModel
from tgpu.wire.v1 import ActionAnswer

RECEIPT = PreemptionModel(
    job_id="12",
    attempt=1,
    tenant_id="vision",
    user="ada",
    gpu_count=4,
    to="31",
    to_tenant_id="speech",
    cause="priority",
    reason="preempted for job 31 (priority 900 over 500)",
    asked_at="2030-01-31T14:00:00.000Z",
    gone_at="2030-01-31T14:00:09.000Z",
    lost_gpu_seconds=7200,
)


@pytest.fixture
def answers(service, monkeypatch):
    """What the service answers to these two calls; the rest is as before."""
    found = PreemptionList(preemptions=[RECEIPT])
    answer = type(service).answer

    def answering(self, request):
        path = request.url.path.removeprefix("/api/v1/").split("/")
        if path[-1] in ("checkpoint", "preemptions"):
            self.requests.append((request.method, str(request.url.raw_path.decode())))
            message = "Job has marked a checkpoint"
            marked = ActionAnswer(job_id=path[1 % len(path)], status="running", message=message)
            made = marked if path[-1] == "checkpoint" else found
            return httpx.Response(200, json=made.model_dump())
        return answer(self, request)

    monkeypatch.setattr(type(service), "answer", answering)
    return found


@pytest.mark.usefixtures("answers")
def test_a_named_job_marks_a_checkpoint(tgpu, service):
    outcome = tgpu("checkpoint", "12")
    assert (outcome.code, outcome.out) == (0, "job 12 has marked a checkpoint\n")
    assert service.requests[-1] == ("POST", "/api/v1/jobs/12/checkpoint")


@pytest.mark.usefixtures("answers")
def test_inside_a_job_it_is_that_job(tgpu, monkeypatch):
    monkeypatch.setenv("TGPU_JOB_ID", "7.3")
    assert json.loads(tgpu("checkpoint", "--json").out)["job_id"] == "7.3"


def test_outside_of_a_job_one_must_be_named(tgpu, monkeypatch):
    monkeypatch.delenv("TGPU_JOB_ID", raising=False)
    outcome = tgpu("checkpoint")
    assert outcome.code == 2
    assert "tgpu checkpoint JOB" in outcome.err


@pytest.mark.usefixtures("answers")
def test_receipts_are_a_table_that_lines_up(tgpu):
    head, row = tgpu("preemptions").out.splitlines()
    for title, value in {
        "WHEN": "2030-01-31 14:00:00",
        "JOB": "12",
        "FOR": "31",
        "LOST": "2h",
        "TOOK": "9s",
        "WHY": RECEIPT.reason,
    }.items():
        assert row[head.index(title) :].startswith(value)


@pytest.mark.usefixtures("answers")
def test_receipts_as_json_are_the_api_s(tgpu, service):
    shown = json.loads(tgpu("preemptions", "--tenant", "vision", "--limit", "5", "--json").out)
    assert shown["preemptions"] == [RECEIPT.model_dump()]
    assert service.requests[-1] == ("GET", "/api/v1/preemptions?tenant_id=vision&limit=5")


def test_none_is_said_in_words(tgpu, answers):
    answers.preemptions.clear()
    outcome = tgpu("preemptions")
    assert (outcome.code, outcome.out) == (0, "")
    assert "no job has been preempted" in outcome.err
