"""Cancelling ends all of a job, also when the processes that should do it are killed meanwhile."""

import os
import signal

from tests.integration.crash.conftest import StartService
from tests.real_service import RealService, eventually, kill_and_wait
from tgpu.engines.local.paths import JOURNAL

# Deaf to TERM, with a child in the background and a daemon that cut all ties. What is ignored
# stays ignored across exec, so the sleeps are deaf too.
STUBBORN = """
trap '' TERM
(setsid sh -c 'echo daemon >> traces; exec sleep 300' > /dev/null 2>&1 < /dev/null &)
sleep 300 &
while [ ! -e traces ]; do sleep 0.05; done
echo ready >> traces
while :; do sleep 1; done
"""


def test_the_gpu_is_free_only_when_nothing_of_the_job_is_left(start: StartService) -> None:
    service = start(gpus="sim:1xA100")
    stubborn = service.submit(STUBBORN)
    service.wait_for_lines("traces", "daemon", "ready")
    assert len(service.processes_of(stubborn)) >= 3
    following = service.submit("exit 0")

    service.cancel(stubborn)

    def given_away() -> bool:
        holders = service.get("/gpus")["gpus"][0]["jobs"]
        return bool(holders != [stubborn])

    eventually(given_away, "the GPU to be given away", pause=0.01)
    assert service.processes_of(stubborn) == []
    assert service.job(stubborn)["state"] == "cancelled"
    assert service.end(following)["state"] == "completed"


def test_a_cancel_that_was_acknowledged_happens_after_kill_9_of_everything(
    start: StartService,
) -> None:
    service = start()
    job_id = service.submit(STUBBORN)
    service.wait_for_lines("traces", "daemon", "ready")
    stopped = freeze_supervisor(service)  # so that nothing but the record can carry the news
    assert service.cancel(job_id)["status"] == "running"
    kill_and_wait(service.pid, stopped)

    service.start()

    assert service.end(job_id)["state"] == "cancelled"
    assert service.processes_of(job_id) == []
    assert service.busy_gpus() == []


def test_a_job_cancelled_before_it_was_launched_never_runs(start: StartService) -> None:
    service = start()
    stopped = freeze_supervisor(service)
    job_id = service.submit("echo ran >> ran")
    service.in_state(job_id, "scheduled")
    service.cancel(job_id)
    kill_and_wait(service.pid, stopped)

    service.start()

    assert service.end(job_id)["state"] == "cancelled"
    later = service.submit("exit 0")
    assert service.end(later)["state"] == "completed"
    assert service.lines("ran") == []


def test_a_launch_under_way_when_its_job_was_cancelled_keeps_the_gpu_until_it_is_ended(
    start: StartService,
) -> None:
    service = start()
    runners = service.runners()
    for runner in runners:
        os.kill(runner, signal.SIGSTOP)  # as slow as a disk can make a start
    job_id = service.submit("sleep 300")
    service.in_state(job_id, "scheduled")
    handed_over = service.data_dir / "engine" / JOURNAL
    # Before that a stop is the end of it: it leaves a tombstone, and the launch comes too late.
    eventually(lambda: '["launch"' in handed_over.read_text(), "the supervisor to have the launch")
    service.cancel(job_id)
    assert service.busy_gpus() != []  # for it may still be started
    service.restart()
    # A slow restart may take so long that the supervisor has taken it back from the runner.
    assert service.busy_gpus() or service.job(job_id)["state"] == "cancelled"

    for runner in runners:
        os.kill(runner, signal.SIGCONT)

    assert service.end(job_id)["state"] == "cancelled"
    assert service.processes_of(job_id) == []
    assert service.busy_gpus() == []


def freeze_supervisor(service: RealService) -> int:
    """Its pid. Whatever it is told now, it has not heard."""
    pid = service.supervisor()
    os.kill(pid, signal.SIGSTOP)
    return pid
