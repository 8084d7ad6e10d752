"""kill -9 of the service, while jobs run and while submits arrive."""

import contextlib
import threading
import time

import httpx

from tests.integration.crash.conftest import StartService
from tests.real_service import RealService, eventually, gate

# What a job does last, and what its end must look like.
ENDS = {
    "zero": ("exit 0", "completed", 0, None),
    "three": ("exit 3", "failed", 3, None),
    "killed": ("kill -9 $$", "failed", 137, 9),
}


def test_running_jobs_go_on_and_end_with_their_own_exit_codes(start: StartService) -> None:
    service = start()
    for name, (end, *_) in ENDS.items():
        service.submit(f"echo ran >> {name}; {gate()}; {end}", job_id=name)
    before = {name: service.running(name) for name in ENDS}
    service.restart()
    after = {name: service.job(name) for name in ENDS}
    same = ("state", "pid", "attempt", "started_at", "gpus", "restarts")
    for name in ENDS:
        assert {key: after[name][key] for key in same} == {key: before[name][key] for key in same}
    service.open_gate()
    for name, (_, state, exit_code, signal) in ENDS.items():
        job = service.end(name)
        assert (job["state"], job["exit_code"], job["signal"]) == (state, exit_code, signal)
        assert service.lines(name) == ["ran"]
    assert service.busy_gpus() == []


def test_jobs_that_end_while_the_service_is_dead_are_recorded_when_it_is_back(
    start: StartService,
) -> None:
    service = start()
    for name, (end, *_) in ENDS.items():
        service.submit(f"echo ran >> {name}; {gate()}; echo over >> {name}; {end}", job_id=name)
        service.running(name)
    service.kill()
    service.open_gate()
    for name in ENDS:
        service.wait_for_lines(name, "ran", "over")
    service.start()
    for name, (_, state, exit_code, signal) in ENDS.items():
        job = service.end(name)
        assert (job["state"], job["exit_code"], job["signal"]) == (state, exit_code, signal)
        assert (job["attempt"], service.lines(name)) == (1, ["ran", "over"])


class Submitter(threading.Thread):
    """Submits named jobs one after the other until the service is gone."""

    def __init__(self, service: RealService, name: str, refusals: tuple[int, ...] = ()) -> None:
        super().__init__(name=name)
        self.service = service
        self.refusals = refusals  # what a service that ends may answer
        self.tried: list[str] = []
        self.acknowledged: list[str] = []

    def run(self) -> None:
        with self.service.client() as http:
            for number in range(10_000):
                job_id = f"{self.name}-{number}"
                self.tried.append(job_id)
                try:
                    answer = http.post("/api/v1/jobs", json=request(self.service, job_id))
                except httpx.HTTPError:
                    return
                if answer.status_code in self.refusals:
                    return
                assert answer.status_code == 201, answer.text
                self.acknowledged.append(job_id)


def request(service: RealService, job_id: str) -> dict[str, object]:
    # A tenth of a GPU each, so that all of them are over soon.
    return service.request(f"echo ran >> {job_id}", job_id=job_id, gpu_count=0.1)


def test_no_acknowledged_submit_is_lost_and_none_runs_twice(start: StartService) -> None:
    service = start()
    submitters = [Submitter(service, f"thread{number}") for number in range(4)]
    for submitter in submitters:
        submitter.start()
    eventually(
        lambda: all(len(submitter.acknowledged) >= 10 for submitter in submitters),
        "ten acknowledged submits of each thread",
    )
    service.kill()
    for submitter in submitters:
        submitter.join()
    service.start()
    acknowledged = [job_id for submitter in submitters for job_id in submitter.acknowledged]
    for job_id in acknowledged:
        assert service.end(job_id)["state"] == "completed"
        assert service.lines(job_id) == ["ran"]
    for job_id in (submitter.tried[-1] for submitter in submitters):
        existed = service.http.get(f"/api/v1/jobs/{job_id}").status_code == 200
        again = service.http.post("/api/v1/jobs", json=request(service, job_id))
        assert again.status_code == (200 if existed else 201)
        assert service.end(job_id)["attempt"] == 1
        assert service.lines(job_id) == ["ran"]
    assert service.get("/cluster/status")["jobs_by_state"]["failed"] == 0
    assert service.busy_gpus() == []


def test_a_repeated_submit_is_the_same_job_after_a_restart(start: StartService) -> None:
    service = start()
    done = service.submit("echo ran >> done", job_id="done")
    service.end(done)
    service.submit(f"echo ran >> waits; {gate()}", job_id="waits")
    service.running("waits")
    service.restart()
    for job_id, script in (("done", "echo ran >> done"), ("waits", f"echo ran >> waits; {gate()}")):
        again = service.http.post("/api/v1/jobs", json=service.request(script, job_id=job_id))
        assert (again.status_code, again.json()["job_id"]) == (200, job_id)
        other = service.http.post("/api/v1/jobs", json=service.request("exit 9", job_id=job_id))
        assert (other.status_code, other.json()["error"]["code"]) == (409, "DUPLICATE_JOB")
    service.open_gate()
    assert service.end("waits")["attempt"] == 1
    assert (service.lines("done"), service.lines("waits")) == (["ran"], ["ran"])


def test_an_array_is_there_whole_or_not_at_all(start: StartService) -> None:
    service = start()
    for name, seconds in (("first", 0.05), ("second", 0.1)):
        indexes = {"indexes": "1-900"}
        request = service.request("exit 0", job_id=name, array=indexes, hold=True)
        answers: list[int] = []
        submitter = threading.Thread(target=submit, args=(service, request, answers))
        submitter.start()
        time.sleep(seconds)  # before, while or after it is written down
        service.kill()
        submitter.join()
        service.start()
        elements = service.get(f"/jobs?array_id={name}&limit=1000")["jobs"]
        assert len(elements) in ((900,) if answers == [201] else (0, 900))


def submit(service: RealService, request: dict[str, object], answers: list[int]) -> None:
    with service.client() as http, contextlib.suppress(httpx.HTTPError):
        answers.append(http.post("/api/v1/jobs", json=request).status_code)
