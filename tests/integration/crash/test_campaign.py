"""A campaign: jobs come and are cancelled steadily while processes are killed at random moments."""

import random
import threading
import time
from dataclasses import replace

import httpx
import pytest

from tests.integration.crash.conftest import StartService
from tests.integration.crash.history import END, START, Promise, broken_promises, parse
from tests.real_service import OVER, RealService, kill_and_wait
from tgpu.engines.local.runs import read_runs
from tgpu.journal.history_check import check_history
from tgpu.journal.lines import Journal

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

    def __init__(self, service: RealService, name: str, *, watched: bool) -> None:
        super().__init__(name=name)
        self._http = service.client()
        self._service = service
        self._watched = watched
        self._rng = random.Random(f"{SEED} {name}")
        self._stop_asked = threading.Event()
        self.sending = threading.Event()  # a request is on its way, and not answered yet
        self.promises: dict[str, Promise] = {}

    def run(self) -> None:
        number = 0
        with self._http:
            while not self._stop_asked.wait(self._rng.uniform(0.02, 0.3)):
                number += 1
                self._submit(f"{self.name}-{number}", *ENDS[number % len(ENDS)])

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()

    def _submit(self, job_id: str, end: str, promise: Promise) -> None:
        seconds = self._rng.choice((0, 0.05, 0.2, 0.5))
        # In the background, so that the shell hears TERM at once and can say when it ended.
        script = f"trap '{END}; exit 143' TERM; {START}; sleep {seconds} & wait $!; {END}; {end}"
        request = self._service.request(
            script,
            job_id=job_id,
            gpu_count=self._rng.choice((1, 1, 2)),
            max_retries=promise.runs - 1,
            backoff_seconds=0.1,
        )
        while self._ask("POST", "/api/v1/jobs", request) not in (200, 201):
            time.sleep(0.02)
        self.promises[job_id] = promise = replace(promise, watched=self._watched)
        if self._rng.random() < 0.2:
            time.sleep(self._rng.choice((0, 0.02, 0.2)))
            status = self._ask("DELETE", f"/api/v1/jobs/{job_id}")
            if status != 409:  # over by then
                asked = replace(promise, asked_to_end=True, cancelled=status == 200)
                self.promises[job_id] = asked

    def _ask(self, method: str, path: str, body: object = None) -> int | None:
        """The status of the answer; None if there was none."""
        self.sending.set()
        try:
            answer = self._http.request(method, path, json=body)
        except httpx.HTTPError:
            return None
        self.sending.clear()
        assert answer.status_code in (200, 201, 409, 503), answer.text
        return answer.status_code


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("rounds", "victims"),
    [
        pytest.param(
            15,
            ("service", "supervisor", "supervisor", "both", "starting"),
            id="jobs keep their ends",
        ),
        pytest.param(8, ("runners", "supervisor and runners"), id="runners are killed too"),
    ],
)
def test_whatever_is_killed_whenever_every_promise_is_kept(
    start: StartService, rounds: int, victims: tuple[str, ...]
) -> None:
    rng = random.Random(SEED)
    service = start()
    watched = not any("runners" in victim for victim in victims)
    streams = [Stream(service, name, watched=watched) for name in ("a", "b", "c")]
    for stream in streams:
        stream.start()
    for _ in range(rounds):
        wait_for_a_moment(rng, rng.choice(streams))
        kill_something(service, rng, rng.choice(victims))
    for stream in streams:
        stream.stop()

    promises = {job_id: p for stream in streams for job_id, p in stream.promises.items()}
    jobs = {job_id: service.end(job_id) for job_id in promises}
    assert len(jobs) >= 2 * rounds  # or there was nothing to break
    ledger = parse(service.lines("ledger"))
    assert broken_promises(promises, jobs, ledger) == []
    journal = Journal("the service", service.http.get("/api/v1/journal").content.splitlines(True))
    events = [journal.event(row) for row in journal.rows()]
    runs = read_runs(service.data_dir / "engine")
    assert len(runs) >= len({line.job_id for line in ledger})
    assert check_history(events, runs, acknowledged=promises, is_settled=True) == []
    known = service.get("/jobs?limit=1000")["jobs"]
    assert {job["job_id"] for job in known} == set(jobs)
    assert {job["state"] for job in known} <= set(OVER)
    assert service.busy_gpus() == []
    assert service.get("/health")["status"] == "healthy"


def wait_for_a_moment(rng: random.Random, stream: Stream) -> None:
    """The moment is what is random here; often it is one between a request and its answer."""
    if rng.random() < 0.5:
        time.sleep(rng.uniform(0, 0.6))
    elif stream.sending.wait(5):
        time.sleep(rng.uniform(0, 0.01))


def kill_something(service: RealService, rng: random.Random, victim: str) -> None:
    """Afterwards the service is there again."""
    match victim:
        case "service":
            service.restart()
        case "supervisor":
            service.kill_supervisor()
        case "both":
            kill_and_wait(service.supervisor(), service.pid)
            service.start()
        case "starting":  # killed once more on its way up
            service.kill()
            service.launch()
            time.sleep(rng.uniform(0, 1.0))
            service.restart()
        case "runners":
            kill_and_wait(*service.runners())
        case "supervisor and runners":
            kill_and_wait(service.supervisor(), *service.runners())
