"""What was promised before kill -9 of the service holds after it, and what is due is done."""

from tests.integration.crash.conftest import StartService
from tests.real_service import RealService, eventually, gate


def test_the_time_limit_ends_a_job_while_the_service_is_dead(start: StartService) -> None:
    service = start()
    job_id = service.submit("sleep 300", max_runtime=1)
    service.running(job_id)
    service.kill()
    eventually(lambda: not service.processes_of(job_id), "the job to be ended")
    service.start()
    job = service.end(job_id)
    assert (job["state"], job["cause"]) == ("failed", "time limit of 1 s reached")


def test_a_retry_waits_for_its_back_off_across_a_restart(start: StartService) -> None:
    service = start()
    script = "date +%s%N >> tries; [ $TGPU_ATTEMPT = 3 ] || exit 1"
    job_id = service.submit(script, max_retries=2, backoff_seconds=1.5)
    eventually(lambda: waits_for_retry(service.job(job_id)), "the first try to fail")
    service.restart()
    job = service.end(job_id)
    assert (job["state"], job["attempt"], job["restarts"]) == ("completed", 3, 2)
    first, second, third = (int(line) / 1e9 for line in service.lines("tries"))
    assert second - first >= 1.5
    assert third - second >= 3.0  # each back-off is twice the one before


def waits_for_retry(job: dict[str, object]) -> bool:
    return job["state"] == "pending" and job["attempt"] == 1


def test_dependencies_that_end_while_the_service_is_dead_count(start: StartService) -> None:
    service = start()
    service.submit(f"{gate()}; exit 0", job_id="good")
    service.submit(f"{gate()}; exit 1", job_id="bad")
    for job_id, on, kind in (
        ("after-good", "good", "ok"),
        ("after-bad", "bad", "ok"),
        ("after-any", "bad", "any"),
    ):
        after = [{"job_id": on, "kind": kind}]
        service.submit(f"echo ran >> {job_id}", job_id=job_id, after=after)
    pids = [service.running(job_id)["pid"] for job_id in ("good", "bad")]
    service.kill()
    service.open_gate()
    eventually(lambda: not set(pids) & set(service.processes()), "both to end")
    service.start()
    assert service.end("after-good")["state"] == "completed"
    assert service.end("after-any")["state"] == "completed"
    doomed = service.end("after-bad")
    assert (doomed["state"], doomed["cause"]) == ("cancelled", "job bad it depends on failed")
    ran = [service.lines(name) for name in ("after-good", "after-any", "after-bad")]
    assert ran == [["ran"], ["ran"], []]


def test_a_job_whose_dependency_failed_is_not_started_by_the_next_life(start: StartService) -> None:
    service = start(settings={"scheduler": {"clock": "manual"}})
    service.submit("exit 1", job_id="bad")
    service.submit("echo ran >> ran", job_id="next", after=[{"job_id": "bad"}])
    tick(service, 1)
    service.end("bad")
    service.restart()  # between the end that dooms it and the cycle that would cancel it
    tick(service, 2)
    assert service.end("next")["state"] == "cancelled"
    assert service.lines("ran") == []


def tick(service: RealService, now: int) -> None:
    answer = service.http.post("/schedule", params={"now": now})
    assert answer.status_code == 200, answer.text


def test_a_held_job_stays_held(start: StartService) -> None:
    service = start()
    job_id = service.submit("echo ran >> ran", hold=True)
    service.restart()
    other = service.submit("exit 0")
    service.end(other)  # so cycles have run, and there was room
    job = service.job(job_id)
    assert (job["state"], job["held"], job["reason"]["code"]) == ("pending", True, "held")
    service.post(f"/jobs/{job_id}/release")
    assert service.end(job_id)["state"] == "completed"
    assert service.lines("ran") == ["ran"]


def test_a_paused_gpu_stays_paused(start: StartService) -> None:
    service = start(gpus="sim:2xA100")
    service.post("/gpus/0/pause", {"reason": "fan is loud"})
    service.restart()
    paused = service.get("/gpus")["gpus"][0]
    assert paused["status"] == "paused"
    assert paused["paused"].startswith("fan is loud (by ")
    first = service.submit(gate())
    assert service.running(first)["gpus"] == [1]
    second = service.submit(gate())
    service.restart()
    assert service.job(second)["state"] == "pending"
    service.post("/gpus/0/resume")
    assert service.running(second)["gpus"] == [0]


def test_the_cap_of_an_array_holds_after_a_restart(start: StartService) -> None:
    service = start(gpus="sim:8xA100")
    script = f"echo start >> trace; {gate('gate$TGPU_ARRAY_INDEX')}; echo end >> trace"
    base = service.submit(script, array={"indexes": "1-5", "max_running": 2})
    eventually(lambda: len(service.lines("trace")) == 2, "two elements to start")
    service.restart()
    for index in range(1, 6):
        service.open_gate(f"gate{index}")
    for index in range(1, 6):
        assert service.end(f"{base}.{index}")["state"] == "completed"
    assert len(service.lines("trace")) == 10
    assert most_at_once(service.lines("trace")) == 2


def most_at_once(trace: list[str]) -> int:
    now = most = 0
    for line in trace:
        now += 1 if line == "start" else -1
        most = max(most, now)
    return most


def test_a_lease_is_still_held_after_a_restart_and_expires(start: StartService) -> None:
    service = start(gpus="sim:2xA100")
    post = {"gpu_count": 1}
    kept = service.post("/jobs", post)["job_id"]
    short = service.post("/jobs", post | {"max_runtime": 4})["job_id"]
    started_at = service.running(short)["started_at"]
    service.running(kept)
    service.restart()
    assert service.job(kept)["state"] == "running"
    expired = service.end(short)
    assert (expired["state"], expired["started_at"]) == ("completed", started_at)
    assert expired["cause"] == "its time was up"
    assert service.busy_gpus() == service.job(kept)["gpus"]
    service.post(f"/jobs/{kept}/complete")
    assert service.busy_gpus() == []


def test_jobs_that_waited_start_in_their_order(start: StartService) -> None:
    service = start(gpus="sim:1xA100")
    first = service.submit(gate())
    service.running(first)
    for name in ("b", "c", "a"):
        service.submit(f"echo {name} >> order", job_id=name)
    service.submit("echo urgent >> order", job_id="urgent", priority=2000)
    service.restart()
    service.open_gate()
    for job_id in ("urgent", "a", "b", "c"):
        service.end(job_id)
    assert service.lines("order") == ["urgent", "b", "c", "a"]
