"""kill -9 of the supervisor, alone, with the service, and with the runners."""

import os
from signal import SIGSTOP

from tests.integration.crash.conftest import StartService
from tests.integration.crash.test_service_killed import ENDS
from tests.real_service import RealService, eventually, gate, kill_and_wait


def start_jobs(service: RealService, **fields: object) -> dict[str, int]:
    """One job for each kind of end, all running; their pids."""
    for name, (end, *_) in ENDS.items():
        script = f"echo ran >> {name}; {gate()}; echo over >> {name}; {end}"
        service.submit(script, job_id=name, **fields)
    return {name: service.running(name)["pid"] for name in ENDS}


def check_ends(service: RealService) -> None:
    for name, (_, state, exit_code, signal) in ENDS.items():
        job = service.end(name)
        assert (job["state"], job["exit_code"], job["signal"]) == (state, exit_code, signal)
        assert (job["attempt"], service.lines(name)) == (1, ["ran", "over"])


def check_that_further_jobs_start(service: RealService) -> None:
    later = service.submit("echo ran >> later; exit 5", job_id="later")
    assert service.end(later)["exit_code"] == 5
    assert service.lines("later") == ["ran"]
    assert service.busy_gpus() == []


def test_jobs_go_on_and_the_service_finds_the_next_supervisor_by_itself(
    start: StartService,
) -> None:
    service = start()
    pids = start_jobs(service)
    first = service.supervisor()
    service.kill_supervisor()
    assert service.supervisor() != first
    assert {name: service.running(name)["pid"] for name in ENDS} == pids
    service.open_gate()
    check_ends(service)
    check_that_further_jobs_start(service)
    assert service.get("/health")["status"] == "healthy"


def test_jobs_that_end_while_there_is_no_supervisor_have_their_exit_codes(
    start: StartService,
) -> None:
    service = start()
    start_jobs(service)
    service.kill()  # or it would start another supervisor
    service.kill_supervisor()
    service.open_gate()
    for name in ENDS:
        service.wait_for_lines(name, "ran", "over")
    service.start()
    check_ends(service)
    check_that_further_jobs_start(service)


def test_jobs_go_on_when_service_and_supervisor_are_killed_at_once(start: StartService) -> None:
    service = start()
    pids = start_jobs(service)
    kill_and_wait(service.supervisor(), service.pid)
    service.start()
    assert {name: service.running(name)["pid"] for name in ENDS} == pids
    service.open_gate()
    check_ends(service)
    check_that_further_jobs_start(service)


def test_a_job_that_nobody_watched_any_more_goes_on_and_fails_with_the_cause(
    start: StartService,
) -> None:
    service = start()
    pids = start_jobs(service)
    kill_all_but_jobs(service)
    service.start()
    assert {name: service.running(name)["pid"] for name in ENDS} == pids
    service.open_gate()
    for name in ENDS:
        job = service.end(name)
        assert (job["state"], job["exit_code"], job["attempt"]) == ("failed", None, 1)
        assert "exit code was lost" in job["cause"]
        assert service.lines(name)[0] == "ran"
        assert service.lines(name).count("ran") == 1
    check_that_further_jobs_start(service)


def test_a_job_that_nobody_watched_any_more_runs_again_if_it_may(start: StartService) -> None:
    service = start()
    script = f"echo $TGPU_ATTEMPT >> again; {gate()}; exit 3"
    service.submit(script, job_id="again", requeue=True)
    service.running("again")
    kill_all_but_jobs(service)
    service.start()
    assert service.job("again")["state"] == "running"
    assert service.lines("again") == ["1"]  # not a second one beside the first
    service.open_gate()
    job = service.end("again")
    assert (job["state"], job["exit_code"]) == ("failed", 3)
    assert (job["attempt"], job["restarts"]) == (2, 1)
    assert service.lines("again") == ["1", "2"]


def test_killed_runners_leave_their_jobs_and_exit_codes_to_the_supervisor(
    start: StartService,
) -> None:
    service = start()
    pids = start_jobs(service)
    kill_and_wait(*service.runners())
    assert {name: service.running(name)["pid"] for name in ENDS} == pids
    service.open_gate()
    check_ends(service)
    check_that_further_jobs_start(service)


def kill_all_but_jobs(service: RealService) -> None:
    """At once: a supervisor that outlives its runners would adopt their jobs."""
    kill_and_wait(service.pid, service.supervisor(), *service.runners())


def test_a_gpu_is_given_on_only_when_nothing_of_the_last_job_is_left(start: StartService) -> None:
    service = start()
    daemon = "setsid sh -c 'echo $$ > daemon; exec sleep 600' </dev/null >/dev/null 2>&1 &"
    first = service.submit(f"{daemon} {gate()}", gpu_count=4)
    service.running(first)
    eventually(lambda: service.lines("daemon"), "the daemon to be up")
    # One that only waits to be counted by init is gone.
    lives = "grep -qs '^State:.[^ZX]' /proc/$(cat daemon)/status"
    look = f"{lives} && echo there >> seen || echo gone >> seen"
    second = service.submit(look, gpu_count=4)
    assert service.job(second)["state"] == "pending"
    supervisor, runners = service.supervisor(), service.runners()
    os.kill(supervisor, SIGSTOP)  # or it would take over what its runners had
    kill_and_wait(*runners, supervisor)
    service.open_gate()
    assert service.end(first)["state"] == "failed"
    assert service.end(second)["state"] == "completed"
    assert service.lines("seen") == ["gone"]
