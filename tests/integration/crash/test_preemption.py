"""A job is preempted for a more important one: it saves its work, waits, and runs again."""

from datetime import datetime
from typing import Any

from tests.integration.crash.conftest import StartService
from tests.real_service import RealService, gate, kill_and_wait

_SAVES = (
    "trap 'echo saved >> low; exit 0' USR1; echo begun >> low; "
    "while [ ! -e enough ]; do sleep 0.05; done; echo ended >> low"
)


def a_service(start: StartService, **engine: Any) -> RealService:
    return start(
        gpus="sim:1xA100",
        settings={
            "scheduler": {"enable_preemption": True, "preempt_min_run_seconds": 0},
            "engine": {"grace_seconds": 0.5, **engine},
        },
    )


def a_low_job(service: RealService, **fields: Any) -> None:
    service.submit(_SAVES, job_id="low", priority=100, checkpoint_signal="USR1", **fields)
    service.running("low")
    service.wait_for_lines("low", "begun")


def receipts(service: RealService) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.get("/preemptions")["preemptions"]
    return found


def test_it_saves_waits_with_its_age_and_runs_again(start: StartService) -> None:
    service = a_service(start)
    a_low_job(service)
    submitted_at = service.job("low")["submitted_at"]
    service.submit(gate(), job_id="high", priority=900)
    service.running("high")
    low = service.job("low")
    assert (low["state"], low["submitted_at"]) == ("pending", submitted_at)
    assert (low["preemptions"], low["restarts"]) == (1, 1)
    assert low["lost_gpu_seconds"] > 0
    service.wait_for_lines("low", "begun", "saved")
    (receipt,) = receipts(service)
    assert (receipt["job_id"], receipt["to"], receipt["cause"]) == ("low", "high", "priority")
    assert receipt["reason"] == "preempted for job high (priority 900 over 100)"
    assert receipt["lost_gpu_seconds"] == low["lost_gpu_seconds"]
    assert receipt["gone_at"] is not None
    service.open_gate()
    assert service.end("high")["state"] == "completed"
    service.running("low")
    service.wait_for_lines("low", "begun", "saved", "begun")
    service.open_gate("enough")
    low = service.end("low")
    assert (low["state"], low["attempt"]) == ("completed", 2)


def test_what_was_done_before_a_checkpoint_is_not_lost(start: StartService) -> None:
    service = a_service(start)
    a_low_job(service)
    answer = service.post("/jobs/low/checkpoint")
    assert (answer["status"], answer["message"]) == ("running", "Job has marked a checkpoint")
    low = service.job("low")
    assert low["checkpoint_at"] >= low["started_at"]
    service.submit(gate(), job_id="high", priority=900)
    service.running("high")
    (receipt,) = receipts(service)
    gone_at, marked_at = map(datetime.fromisoformat, (receipt["gone_at"], low["checkpoint_at"]))
    assert receipt["lost_gpu_seconds"] == (gone_at - marked_at).total_seconds()  # of one GPU
    events = service.get("/jobs/low/events")["events"]
    kinds = [event["kind"] for event in events]
    assert kinds[-4:] == ["job_checkpointed", "job_stopping", "job_preempted", "job_requeued"]


def test_a_waiting_job_has_nothing_to_mark(start: StartService) -> None:
    service = a_service(start)
    service.submit("true", job_id="held", hold=True)
    assert service.http.post("/api/v1/jobs/held/checkpoint").status_code == 409
    assert service.http.post("/api/v1/jobs/none/checkpoint").status_code == 404


def test_killed_between_the_decision_and_the_end_it_is_carried_out_all_the_same(
    start: StartService,
) -> None:
    service = a_service(start, checkpoint_seconds=600)
    slow = (
        "trap 'echo saving >> low; while [ ! -e enough ]; do sleep 0.05; done; exit 0' USR1; "
        "echo begun >> low; while :; do sleep 0.05; done"
    )
    service.submit(slow, job_id="low", priority=100, checkpoint_signal="USR1")
    service.running("low")
    service.wait_for_lines("low", "begun")
    service.submit(gate(), job_id="high", priority=900)
    service.wait_for_lines("low", "begun", "saving")
    assert receipts(service)[0]["gone_at"] is None
    service.kill()
    service.open_gate("enough")
    service.start()
    service.running("high")
    low = service.job("low")
    assert (low["state"], low["preemptions"]) == ("pending", 1)
    assert [(r["job_id"], r["gone_at"] is None) for r in receipts(service)] == [("low", False)]


def test_cancelled_while_it_saves_it_ends_for_good(start: StartService) -> None:
    service = a_service(start, checkpoint_seconds=600)
    service.submit(
        "trap 'echo saving >> low' USR1; echo begun >> low; while :; do sleep 0.05; done",
        job_id="low",
        priority=100,
        checkpoint_signal="USR1",
    )
    service.running("low")
    service.wait_for_lines("low", "begun")
    service.submit(gate(), job_id="high", priority=900)
    service.wait_for_lines("low", "begun", "saving")
    service.cancel("low")
    assert service.end("low")["state"] == "cancelled"
    service.running("high")


def test_it_is_carried_out_also_when_the_supervisor_is_killed(start: StartService) -> None:
    service = a_service(start)
    a_low_job(service)
    kill_and_wait(service.supervisor())
    service.submit(gate(), job_id="high", priority=900)
    service.running("high")
    assert service.job("low")["preemptions"] == 1


def test_a_lease_is_preempted_at_once(start: StartService) -> None:
    service = a_service(start)
    service.post("/jobs", {"job_id": "low", "priority": 100})
    service.running("low")
    service.submit(gate(), job_id="high", priority=900)
    service.running("high")
    low = service.job("low")
    assert (low["state"], low["preemptions"]) == ("pending", 1)
    service.open_gate()
    service.end("high")
    assert service.running("low")["attempt"] == 2
