import pytest

from tests.unit.cli.builders import NOW_MS, a_job, a_running_job, an_ended_job
from tgpu.cli.render.jobs import (
    action_line,
    ended_line,
    job_facts,
    outcome,
    queued_lines,
    shown_state,
    waiting_line,
)
from tgpu.wire.v1 import ActionAnswer, SubmitAnswer, SubmitRequest


def text_of(lines) -> str:
    return "\n".join("".join(cell.text for cell in line).rstrip() for line in lines)


def test_what_a_running_job_is_told_is_shown_and_not_taken_for_its_end():
    job = a_job(state="running", cause="idle: GPU 0 was idle for 30 min")
    text = text_of(job_facts(job, NOW_MS))
    assert "idle: GPU 0 was idle for 30 min" in text
    assert "asked for" not in text


def test_a_job_on_hold_is_shown_as_held():
    assert shown_state(a_job(held=True)) == "held"
    assert shown_state(a_job(state="scheduled")) == "starting"


def test_a_job_that_stands_still_is_shown_as_paused_with_its_gpus_kept():
    job = a_job(state="running", paused_at=a_job().submitted_at, paused_by="ada")
    assert shown_state(job) == "paused"
    assert outcome(job, NOW_MS) == f"keeps its GPUs; tgpu resume {job.job_id}"
    text = text_of(job_facts(job, NOW_MS))
    assert " by ada; it keeps its GPUs" in text
    assert "1m00s of its run" in text_of(job_facts(a_job(paused_seconds=60), NOW_MS))


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (an_ended_job(), "10s ago"),
        (an_ended_job(state="failed", cause="exit code 1"), "exit code 1, 10s ago"),
        (an_ended_job(state="failed"), "exit 1, 10s ago"),
        (an_ended_job(state="failed", exit_code=None, signal=9), "signal 9, 10s ago"),
        (
            an_ended_job(state="failed", exit_code=None, cause="time limit of 2h"),
            "time limit of 2h, 10s ago",
        ),
    ],
)
def test_ended_jobs_say_how_and_when(job, text):
    assert outcome(job, NOW_MS) == text


def test_the_end_of_a_job_is_one_sentence():
    assert ended_line(an_ended_job()) == "job 12 completed after 20s"
    assert ended_line(an_ended_job(state="failed")) == "job 12 failed (exit 1) after 20s"
    assert ended_line(a_job(state="cancelled")) == "job 12 cancelled"


def test_a_queued_job_is_one_line_and_a_next_step():
    request = SubmitRequest(gpu_count=2, command=["python", "train.py"])
    assert queued_lines(SubmitAnswer(job_id="12"), request) == [
        "job 12 queued: 2 GPUs, python train.py",
        "follow it with: tgpu logs -f 12",
    ]


def test_an_array_is_reported_as_a_whole():
    request = SubmitRequest(command=["x"])
    answer = SubmitAnswer(job_id="7", job_ids=["7.1", "7.2"])
    assert queued_lines(answer, request)[0] == "2 jobs queued, 7.1 to 7.2: 1 GPU each, x"


def test_a_lease_and_a_held_job_name_the_command_that_goes_on():
    assert "tgpu complete 12" in queued_lines(SubmitAnswer(job_id="12"), SubmitRequest())[1]
    held = SubmitRequest(command=["x"], hold=True)
    assert queued_lines(SubmitAnswer(job_id="12"), held)[1].endswith("tgpu release 12")


def test_a_waiting_job_without_a_reason_yet_is_no_error():
    assert waiting_line(a_job()) == "job 12 waits: not looked at yet"


def test_an_action_names_its_job():
    answer = ActionAnswer(job_id="12", status="running", message="Job is being stopped")
    assert action_line(answer) == "job 12 is being stopped"


def test_show_gives_facts_and_leaves_out_what_is_not():
    job = a_running_job(gpus=[0, 1], environment={"B": "2", "A": "******"}, max_retries=2)
    text = text_of(job_facts(job, NOW_MS))
    assert "on         GPU 0-1 of local" in text
    assert "attempt    1 of 3" in text
    assert "variables  A=******\n           B=2" in text
    assert "image" not in text


def test_instants_beyond_every_calendar_are_shown_as_they_are():
    job = a_job(submitted_at="99999999999999s")
    assert "99999999999999s" in text_of(job_facts(job, NOW_MS))


def test_a_gang_is_shown_by_its_workers():
    places = [{"node": "a", "gpus": [0, 1]}, {"node": "b", "gpus": [2, 3]}]
    job = a_running_job(
        gpus=[0, 1], workers=2, gpus_per_worker=2.0, gpu_count=4.0, placements=places
    )
    text = text_of(job_facts(job, NOW_MS))
    assert "2 workers of 2 GPUs" in text
    assert "worker 0: GPU 0-1 of a" in text
    assert "worker 1: GPU 2-3 of b" in text


def test_what_a_job_asks_of_its_place_is_shown():
    asked = {
        "gpu_types": ["H100", "A100"],
        "gpu_memory_each_mb": 40_960,
        "excluded_gpus": [0],
        "nodes": ["a", "b"],
        "labels": {"rack": "r1"},
        "same_island": True,
    }
    text = text_of(job_facts(a_job(constraints=asked), NOW_MS))
    assert (
        "on H100 or A100; GPUs of 40G or more; not GPU 0; only on a, b; rack=r1; "
        "GPUs of one NVLink island"
    ) in " ".join(text.split())


def test_a_deadline_says_how_far_off_it_is():
    text = text_of(job_facts(a_job(deadline="2023-11-15T00:13:20Z"), NOW_MS))
    assert "(in 2h00m)" in text
    assert "(1m00s ago)" in text_of(job_facts(a_job(deadline="2023-11-14T22:12:20Z"), NOW_MS))


def test_a_deadline_that_was_missed_says_so():
    deadline = "2023-11-14T22:12:20Z"
    late = a_job(deadline=deadline, ended_at="2023-11-14T22:12:21Z")
    kept = a_job(deadline=deadline, ended_at="2023-11-14T22:12:20Z")
    assert "ago), missed" in text_of(job_facts(late, NOW_MS))
    assert "ago), missed" in text_of(job_facts(a_job(deadline=deadline), NOW_MS))
    assert "missed" not in text_of(job_facts(kept, NOW_MS))


def test_preemption_and_what_it_cost_is_shown():
    job = a_job(preemptions=2, lost_gpu_seconds=90.0, checkpoint_signal="USR1")
    text = text_of(job_facts(job, NOW_MS))
    assert "signal USR1 first, preempted 2 times, 1m30s of GPU time lost" in text
    assert "never preempted" in text_of(job_facts(a_job(preemptible=False), NOW_MS))


def test_what_a_job_does_not_ask_for_is_not_shown():
    text = text_of(job_facts(a_job(), NOW_MS))
    for word in ("where", "deadline", "reservation", "preemption", "checkpoint"):
        assert word not in text


def test_a_queued_gang_is_reported_with_its_workers():
    request = SubmitRequest(workers=4, gpu_count=8, gpu_types=["H100", "A100"], command=["x"])
    head = queued_lines(SubmitAnswer(job_id="12"), request)[0]
    assert head == "job 12 queued: 4 workers of 8 H100 or A100, x"
