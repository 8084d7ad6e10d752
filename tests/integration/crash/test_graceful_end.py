"""SIGTERM: the service ends soon and in order, whoever is connected, and jobs go on."""

import threading

import httpx

from tests.integration.crash.conftest import StartService
from tests.integration.crash.test_service_killed import Submitter
from tests.real_service import eventually, gate


def test_it_ends_soon_though_a_long_poll_is_open_and_submits_arrive(start: StartService) -> None:
    service = start()
    job_id = service.submit(f"echo ran >> ran; {gate()}; exit 3")
    pid = service.running(job_id)["pid"]
    answers: list[int] = []
    polls = (f"/api/v1/jobs/{job_id}/wait?timeout=60", f"/api/v1/jobs/{job_id}/logs?wait=60")
    pollers = [
        threading.Thread(target=long_poll, args=(service.client(), path, answers)) for path in polls
    ]
    submitter = Submitter(service, "submitter", refusals=(503,))
    for thread in (*pollers, submitter):
        thread.start()
    eventually(lambda: len(submitter.acknowledged) > 20, "submits to arrive")

    assert service.terminate(seconds=8) == 0

    for thread in (*pollers, submitter):
        thread.join()
    assert answers == [200, 200]  # as things stood
    assert not (service.data_dir / "service.json").exists()
    assert "Traceback" not in service.log_text()
    assert pid in service.processes()
    service.start()
    assert service.job(job_id)["pid"] == pid
    for acknowledged in submitter.acknowledged:
        assert service.end(acknowledged)["state"] == "completed"
        assert service.lines(acknowledged) == ["ran"]
    service.open_gate()
    assert service.end(job_id)["exit_code"] == 3
    assert service.lines("ran") == ["ran"]


def test_it_ends_while_it_is_still_starting(start: StartService) -> None:
    service = start()
    job_id = service.submit(gate())
    service.running(job_id)
    service.kill()
    service.launch()
    eventually(lambda: is_listening(service.port), "the port to be open", pause=0.005)
    assert service.terminate(seconds=8) == 0
    assert "Traceback" not in service.log_text()
    service.start()
    assert service.job(job_id)["state"] == "running"


def long_poll(http: httpx.Client, path: str, answers: list[int]) -> None:
    with http:
        answers.append(http.get(path, timeout=70).status_code)


def is_listening(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/", trust_env=False).status_code > 0
    except httpx.HTTPError:
        return False
