"""Jobs of the service's own user put pipes and links where logs and records belong: only their own
words are lost. Reads, ends, launches and other jobs go on, also for a new supervisor."""

from concurrent.futures import ThreadPoolExecutor

from tests.integration.crash.conftest import StartService
from tests.real_service import RealService, eventually, gate

# In the place of each file in its own directory, while it runs.
_PLANT = {
    "pipe": 'mkfifo "$f"',
    "link": 'ln -s /etc/passwd "$f"',
    "hard link": 'echo mine > other; ln -f other "$f"',
    "directory": 'mkdir "$f"',
    "device": 'mknod "$f" c 1 5 || ln -s /dev/zero "$f"',
}
_FILES = "stdout.log stderr.log attempt.jsonl out-of-memory"


def planting(what: str) -> str:
    places = " ".join(f'"$TGPU_LOG_DIR/{name}"' for name in _FILES.split())
    return f'for f in {places}; do rm -rf "$f"; {_PLANT[what]}; done'


def test_what_jobs_put_in_their_files_place_harms_nobody(start: StartService) -> None:
    service = start(gpus="sim:8xA100")
    other = service.submit(f"echo well; {gate('other')}")
    planters = [
        service.submit(f"{planting(what)}; touch planted-{number}; {gate()}; exit 3")
        for number, what in enumerate(_PLANT)
    ]
    for number in range(len(_PLANT)):
        eventually((service.work / f"planted-{number}").exists, "it to be done")
    with ThreadPoolExecutor(24) as callers:  # more than there are threads to read files with
        answers = list(callers.map(lambda job: read_once(service, job), planters * 8))
    assert {status for status, _ in answers} == {409}
    assert all(error["code"] == "LOG_UNREADABLE" for _, error in answers)
    assert all("and no file" in e["message"] or "hard link" in e["message"] for _, e in answers)
    assert service.http.get(f"/api/v1/jobs/{other}/logs").text == "well\n"
    service.open_gate()
    for job_id in planters:
        job = service.end(job_id)
        assert (job["state"], job["exit_code"]) == ("failed", 3)
    assert service.end(service.submit("exit 0"))["state"] == "completed"
    service.open_gate("other")
    assert service.end(other)["state"] == "completed"


def read_once(service: RealService, job_id: str) -> tuple[int, dict[str, str]]:
    with service.client() as client:
        answer = client.get(f"/api/v1/jobs/{job_id}/logs", params={"wait": 1})
        return answer.status_code, answer.json()["error"]


def test_what_waits_in_the_place_of_a_jobs_files_is_taken_away(start: StartService) -> None:
    service = start()
    jobs = service.data_dir / "engine" / "jobs"
    secret = service.work / "secret"
    secret.write_text("unharmed\n")
    outside = service.work / "outside"
    outside.mkdir()
    service.end(
        service.submit(
            f"cd {jobs}; mkdir -p later/1; mkfifo later/1/stdout.log;"
            f" ln -s {secret} later/1/stderr.log; ln -s {outside} linked"
        )
    )
    later = service.end(service.submit("echo ran; echo erred >&2", job_id="later"))
    assert later["state"] == "completed"
    assert service.http.get("/api/v1/jobs/later/logs").text == "ran\n"
    assert secret.read_text() == "unharmed\n"

    service.submit("echo ran", job_id="linked")  # not written through the link
    cause = eventually(lambda: service.job("linked")["cause"], "a cause")
    assert "it is a link and no directory" in cause
    assert list(outside.iterdir()) == []
    assert service.end(service.submit("exit 0"))["state"] == "completed"


def test_a_new_supervisor_does_not_wait_for_a_record_that_is_a_pipe(start: StartService) -> None:
    service = start()
    other = service.submit(f"{gate('other')}; exit 5")
    engine = service.data_dir / "engine"
    pipes = "; ".join(
        f"rm -f {engine}/{name}; mkfifo {engine}/{name}"
        for name in ("attempts.log.new", "supervisor.log")
    )
    planter = service.submit(f"{planting('pipe')}; {pipes}; touch planted; {gate()}")
    eventually(lambda: (service.work / "planted").exists(), "the job to have done it")
    service.running(other)
    service.kill_supervisor()
    service.open_gate("other")
    job = service.end(other)
    assert (job["state"], job["exit_code"], job["attempt"]) == ("failed", 5, 1)
    assert service.end(service.submit("exit 0"))["state"] == "completed"
    service.open_gate()
    eventually(lambda: not service.processes_of(planter), "its processes to be gone")
