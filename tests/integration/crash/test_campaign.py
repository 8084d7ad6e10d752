"""A campaign: jobs come in steadily while service and supervisor are killed at random moments."""

import random
import threading
import time

import httpx
import pytest

from tests.integration.crash.conftest import StartService
from tests.integration.crash.history import END, START, Promise, broken_promises, parse
from tests.real_service import OVER, Json, RealService, kill_and_wait

ROUNDS = 15
SEED = 20_240_607
# What a job does last, and what that must be seen as.
ENDS = (
    ("exit 0", Promise(0)),
    ("exit 3", Promise(3)),
    ("kill -9 $$", Promise(137, signal=9)),
    ("exit 0", Promise(0)),
    ("exit 7", Promise(7, runs=2)),  # tried again once
)


class Stream(threading.Thread):
    """Submits jobs until told to stop; one that is not acknowledged is submitted again."""

    def __init__(self, service: RealService, name: str) -> None:
        super().__init__(name=name)
        self._service = service
        self._rng = random.Random(f"{SEED} {name}")
        self._stop_asked = threading.Event()
        self.promises: dict[str, Promise] = {}
        self.sending = threading.Event()
        self.repeats = 0

    def run(self) -> None:
        number = 0
        while not self._stop_asked.wait(self._rng.uniform(0.02, 0.3)):
            number += 1
            job_id = f"{self.name}-{number}"
            end, promise = ENDS[number % len(ENDS)]
            seconds = self._rng.choice((0, 0.05, 0.2, 0.5))
            request = self._service.request(
                f"{START}; sleep {seconds}; {END}; {end}",
                job_id=job_id,
                gpu_count=self._rng.choice((1, 1, 2)),
                max_retries=promise.runs - 1,
                backoff_seconds=0.1,
            )
            self._submit(request)
            self.promises[job_id] = promise

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()

    def _submit(self, request: Json) -> None:
        with self._service.client() as http:
            while True:
                self.sending.set()
                try:
                    answer = http.post("/api/v1/jobs", json=request)
                except httpx.HTTPError:
                    pass
                else:
                    if answer.status_code == 200:
                        self.repeats += 1  # it had been taken before, and we had not heard of it
                    if answer.status_code in (200, 201):
                        self.sending.clear()
                        return
                    assert answer.status_code == 503, answer.text
                time.sleep(0.02)


@pytest.mark.timeout(240)
def test_whatever_is_killed_whenever_every_promise_is_kept(start: StartService) -> None:
    rng = random.Random(SEED)
    service = start()
    streams = [Stream(service, name) for name in ("a", "b", "c")]
    for stream in streams:
        stream.start()
    for _ in range(ROUNDS):
        kill_something(service, rng.choice(streams), rng)
    for stream in streams:
        stream.stop()

    promises = {job_id: p for stream in streams for job_id, p in stream.promises.items()}
    jobs = {job_id: service.end(job_id) for job_id in promises}
    assert len(jobs) >= 2 * ROUNDS  # or there was nothing to break
    ledger = parse(service.lines("ledger"))
    assert broken_promises(promises, jobs, ledger) == []
    known = service.get("/jobs?limit=1000")["jobs"]
    assert {job["job_id"] for job in known} == set(jobs)
    assert {job["state"] for job in known} <= set(OVER)
    assert service.busy_gpus() == []
    assert service.get("/health")["status"] == "healthy"


def kill_something(service: RealService, stream: Stream, rng: random.Random) -> None:
    """One round: some time passes, somebody is killed, and the service is there again."""
    if rng.random() < 0.5:
        time.sleep(rng.uniform(0, 0.6))  # the moment is what is random here
    elif stream.sending.wait(5):
        time.sleep(rng.uniform(0, 0.01))  # between a submit and its answer, often
    match rng.choice(("service", "supervisor", "supervisor", "both", "restart")):
        case "service":
            service.kill()
            service.start()
        case "supervisor":
            service.kill_supervisor()
        case "both":
            kill_and_wait(service.supervisor(), service.pid)
            service.start()
        case "restart":  # killed once more on its way up
            service.kill()
            service.launch()
            time.sleep(rng.uniform(0, 1.0))
            kill_and_wait(service.pid)
            service.start()
