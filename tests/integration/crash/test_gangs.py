"""Gangs from request to processes: several workers, one job."""

from tests.integration.crash.conftest import StartService
from tests.real_service import RealService, eventually, gate

_NAMES = (
    "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $NODE_RANK $CUDA_VISIBLE_DEVICES "
    "$MASTER_ADDR $TGPU_RANK $TGPU_WORLD_SIZE $TGPU_NODE_LIST"
)
_STAYS = "echo $RANK >> up; while :; do sleep 0.05; done"


def all_up(service: RealService, size: int = 3) -> None:
    wanted = [str(rank) for rank in range(size)]
    eventually(lambda: sorted(service.lines("up")) == wanted, "all workers to be up")


def test_every_worker_runs_with_its_rank_and_its_own_gpu(start: StartService) -> None:
    service = start()
    service.submit(f"echo {_NAMES} >> seen; echo $MASTER_PORT >> port", job_id="g", workers=3)
    job = service.end("g")
    assert (job["state"], job["exit_code"], job["workers"]) == ("completed", 0, 3)
    lines = [line.split() for line in sorted(service.lines("seen"))]
    gpus = [line.pop(5) for line in lines]
    assert sorted(gpus) == ["0", "1", "2"]
    assert lines == [
        [str(rank), str(rank), "3", "3", "0", "127.0.0.1", str(rank), "3", "local"]
        for rank in range(3)
    ]
    assert len(service.lines("port")) == 3
    assert len(set(service.lines("port"))) == 1


def test_one_that_fails_ends_all_and_is_the_job_s_end(start: StartService) -> None:
    service = start()
    service.submit(f"if [ $RANK = 1 ]; then {gate()}; exit 9; fi; {_STAYS}", job_id="g", workers=3)
    eventually(lambda: sorted(service.lines("up")) == ["0", "2"], "the others to be up")
    service.open_gate()
    job = service.end("g")
    assert (job["state"], job["exit_code"]) == ("failed", 9)
    assert service.processes_of("g") == []
    assert service.busy_gpus() == []


def test_cancel_ends_every_worker(start: StartService) -> None:
    service = start()
    service.submit(_STAYS, job_id="g", workers=3)
    all_up(service)
    service.cancel("g")
    assert service.end("g")["state"] == "cancelled"
    assert service.processes_of("g") == []
    assert service.busy_gpus() == []


def test_a_gang_goes_on_while_the_service_is_killed(start: StartService) -> None:
    service = start()
    service.submit(f"echo $RANK >> up; {gate()}; exit $RANK", job_id="g", workers=3)
    all_up(service)
    before = service.running("g")
    service.restart()
    after = service.job("g")
    assert (after["state"], after["pid"], after["attempt"]) == ("running", before["pid"], 1)
    assert service.busy_gpus() == [0, 1, 2]
    service.open_gate()
    assert service.end("g")["exit_code"] in (1, 2)  # whichever ended first
    assert sorted(service.lines("up")) == ["0", "1", "2"]
