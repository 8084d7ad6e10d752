"""A bug, or kill -9, between a commit and the state: the service ends, and starts clean."""

import asyncio
import sys
from pathlib import Path

import httpx
import pytest

from tests.real_service import RealService, gate
from tgpu.core.check import check_invariants
from tgpu.core.model.events import NodeSet, QueueSet, TenantSet
from tgpu.core.state.cluster_state import State
from tgpu.store.api import LoadedState
from tgpu.store.sqlite import SqliteStore

FAULTY = Path(__file__).with_name("faulty_service.py")


class FaultyService(RealService):
    step: str | None = None

    def command(self) -> list[str]:
        command = super().command()
        if self.step is None:
            return command
        return [sys.executable, str(FAULTY), self.step, *command[3:]]


def submit_boom(service: RealService) -> int | None:
    """The status of the answer; None where none came."""
    try:
        body = service.request("echo boom >> ran", job_id="boom")
        return service.http.post("/api/v1/jobs", json=body).status_code
    except httpx.HTTPError:
        return None


@pytest.mark.parametrize("step", ["publish", "apply", "published", "killed"])
def test_it_ends_answers_its_caller_and_starts_clean_from_the_store(
    step: str, tmp_path: Path
) -> None:
    with FaultyService(tmp_path) as service:
        service.step = step
        service.start()
        runs = service.submit(f"{gate()}; exit 3")
        pid = service.running(runs)["pid"]
        process = service.process
        assert process is not None
        status = submit_boom(service)
        code = process.wait(20)
        assert (status, code) == ((None, -9) if step == "killed" else (503, 70))
        assert pid in service.processes()  # what runs goes on
        assert read_back(service) == {runs, "boom"}

        service.step = None
        service.start()
        assert service.job(runs)["pid"] == pid
        assert service.end("boom")["state"] == "completed"
        assert service.lines("ran") == ["boom"]  # recorded, and run once
        service.open_gate()
        assert service.end(runs)["exit_code"] == 3
        assert service.get("/health")["status"] == "healthy"


def read_back(service: RealService) -> set[str]:
    """The jobs that a new start finds, in a state that holds every invariant."""
    loaded = asyncio.run(load(service.data_dir / "tgpu.db"))
    state = State()
    for tenant in loaded.tenants:
        state.apply(TenantSet(0, tenant))
    for queue in loaded.queues:
        state.apply(QueueSet(0, queue))
    for node in loaded.nodes:
        state.apply(NodeSet(0, node))
    for job, progress in loaded.live:
        state.restore(job, progress)
    state.restore_meters({}, 0)
    check_invariants(state)
    return {str(job.job_id) for job, _ in loaded.live}


async def load(path: Path) -> LoadedState:
    store = SqliteStore(path)
    try:
        return await store.open()
    finally:
        await store.close()
