"""The line that each step of a job leaves."""

import pytest

from tests.builders import a_gpu, a_job, a_node, a_placement, a_queue, a_state, a_tenant
from tests.unit.telemetry.log_lines import log_lines
from tgpu.core.model import lifecycle
from tgpu.core.model.events import JobMoved, JobsSubmitted, NodeSet, TenantSet
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import PENDING, JobState, Move, Progress
from tgpu.service.reads.cluster_reads import ClusterReads
from tgpu.settings.model import LoggingSettings
from tgpu.store.api import Decider, DecisionId
from tgpu.telemetry.job_log import JobLog

J1 = JobId("j1")
PLACED = lifecycle.place(J1, PENDING, a_placement(0, 3), 61_000)
RUNNING = lifecycle.run(J1, PLACED, 61_000, pid=77)


@pytest.fixture
def said(tmp_path, request):
    """What the log says of some events; the state is as before them."""
    settings = {"format": "json", "level": getattr(request, "param", "INFO")}
    path = tmp_path / "log"
    job_log = JobLog()
    job_log.opening(ClusterReads(a_state(a_job("j1", gpus=1.5, submitted_at=1000))))
    with log_lines(path, LoggingSettings.model_validate({**settings, "file": path})) as lines:

        def say(*events, causes=(), decisions=()):
            job_log.committed(events, causes, 0.01, decisions)
            found = lines()
            for line in found:
                del line["timestamp"], line["logger"]
            return found

        yield say


def test_a_submission_says_who_asked_for_what(said):
    job = a_job("j2", tenant="vision", gpus=0.5, priority=900, queue="night")
    assert said(JobsSubmitted(0, (job,)), causes=["r1"]) == [
        {
            "level": "INFO",
            "message": "job submitted",
            "job_id": "j2",
            "tenant": "vision",
            "queue": "night",
            "priority": 900,
            "required_gpus": 0.5,
            "request_id": "r1",
        }
    ]


def test_a_line_names_the_decision_that_its_step_is_part_of(said):
    job = a_job("j2")
    (line,) = said(JobsSubmitted(0, (job,)), decisions=[DecisionId(12, Decider.COMMAND)])
    assert line["decision"] == 12
    (_, line) = said(
        JobMoved(61_000, J1, Move.START, PLACED), decisions=[DecisionId(13, Decider.CYCLE)]
    )
    assert line["decision"] == 13


def test_jobs_in_bulk_are_one_line_with_their_number(said):
    (line,) = said(JobsSubmitted(0, tuple(a_job(f"b{n}") for n in range(1000))))
    assert line["message"] == "jobs submitted"
    assert (line["count"], line["first_job_id"], line["last_job_id"]) == (1000, "b0", "b999")
    assert line["tenant"] == "default"


def test_jobs_in_bulk_of_several_tenants_say_how_many(said):
    (line,) = said(JobsSubmitted(0, (a_job("a", tenant="t1"), a_job("b", tenant="t2"))))
    assert line["tenants"] == 2
    assert "tenant" not in line


def test_a_start_says_on_which_gpus_after_what_wait(said):
    assert said(JobMoved(61_000, J1, Move.START, PLACED)) == [
        {
            "level": "INFO",
            "message": "job started",
            "job_id": "j1",
            "tenant": "default",
            "attempt": 1,
            "node": "n0",
            "gpu_type": "A100",
            "gpu_ids": [0, 3],
            "gpu_names": ["n0/0", "n0/3"],
            "required_gpus": 1.5,
            "waited_seconds": 60.0,
        }
    ]


def test_an_end_says_how_and_why(said):
    over = lifecycle.end(J1, RUNNING, JobState.FAILED, 63_500, exit_code=2, cause="exit code 2")
    (line,) = said(JobMoved(63_500, J1, Move.FAIL, over))
    assert line["message"] == "job ended"
    assert (line["state"], line["exit_code"], line["cause"]) == ("failed", 2, "exit code 2")
    assert line["ran_seconds"] == 2.5
    assert "signal" not in line


def test_the_end_of_a_job_without_a_process_has_no_exit_code(said):
    over = lifecycle.end(J1, PENDING, JobState.CANCELLED, 5000, cause="cancelled by its owner")
    (line,) = said(JobMoved(5000, J1, Move.CANCEL, over))
    assert (line["state"], line["exit_code"]) == ("cancelled", None)


def test_a_retry_says_why_the_job_waits_again(said):
    again = lifecycle.requeue(J1, RUNNING, 0, "exit code 1", counts=True)
    (line,) = said(JobMoved(0, J1, Move.REQUEUE, again))
    assert (line["message"], line["cause"]) == ("job requeued", "exit code 1")


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (Move.HOLD, "job held"),
        (Move.RELEASE, "job released"),
        (Move.STOP, "job stopping"),
        (Move.PREEMPT, "job preempted"),
    ],
)
def test_every_other_move_leaves_a_line_too(said, move, message):
    assert [line["message"] for line in said(JobMoved(0, J1, move, Progress()))] == [message]


def test_the_confirmation_of_a_start_is_for_those_who_look_closely(said):
    assert said(JobMoved(0, J1, Move.RUN, RUNNING)) == []


@pytest.mark.parametrize("said", ["DEBUG"], indirect=True)
def test_the_confirmation_of_a_start_names_the_process(said):
    (line,) = said(JobMoved(0, J1, Move.RUN, RUNNING))
    assert (line["level"], line["message"], line["pid"]) == ("DEBUG", "job running", 77)


@pytest.mark.parametrize("said", ["WARNING"], indirect=True)
def test_steps_of_jobs_are_no_warnings(said):
    assert said(JobMoved(61_000, J1, Move.START, PLACED)) == []


def test_each_line_names_the_request_behind_its_event(said):
    events = [JobsSubmitted(0, (a_job(name),)) for name in "abc"]
    lines = said(*events, TenantSet(0, a_tenant()), causes=["r1", None, "r3"])
    assert [line.get("request_id") for line in lines] == ["r1", None, "r3"]


def test_a_gpu_that_breaks_is_a_warning_and_one_that_is_paused_a_line(said):
    gpus = [a_gpu(0, problem="lost: Xid 79"), a_gpu(1, paused="dust"), a_gpu(2)]
    broken, paused = said(NodeSet(0, a_node("n0", gpus)))
    assert broken == {
        "level": "WARNING",
        "message": "GPU has a problem",
        "node": "n0",
        "gpu": 0,
        "problem": "lost: Xid 79",
    }
    assert (paused["message"], paused["gpu"], paused["reason"]) == ("GPU paused", 1, "dust")


def test_a_gpu_that_is_well_leaves_no_line(said):
    assert said(NodeSet(0, a_node("n1"))) == []


def test_a_missed_deadline_and_a_late_start_have_a_warning_each(tmp_path):
    job_log = JobLog()
    queue = a_queue("default", wait_target_ms=30_000)
    job_log.opening(
        ClusterReads(a_state(a_job("j1", submitted_at=1000, deadline_at=62_000), queues=[queue]))
    )
    over = lifecycle.end(J1, RUNNING, JobState.COMPLETED, 64_500)
    settings = LoggingSettings.model_validate({"format": "json", "file": tmp_path / "log"})
    with log_lines(tmp_path / "log", settings) as lines:
        job_log.committed(
            [JobMoved(61_000, J1, Move.START, PLACED), JobMoved(64_500, J1, Move.COMPLETE, over)],
            [],
            0.01,
        )
        said = [line for line in lines() if line["level"] == "WARNING"]
    assert [(line["message"], line["job_id"], line["queue"]) for line in said] == [
        ("job missed the wait target of its queue", "j1", "default"),
        ("job missed its deadline", "j1", "default"),
    ]
    assert (said[0]["waited_seconds"], said[1]["late_seconds"]) == (60.0, 2.5)
