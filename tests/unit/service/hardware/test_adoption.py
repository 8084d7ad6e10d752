"""Processes that were started by hand become leases, for as long as they run."""

import os
from collections.abc import Iterable, Mapping
from signal import Signals

import psutil
import pytest

from tests.unit.service.processes import a_process
from tests.unit.service.world import NODE, Box, a_box, a_submission
from tgpu.core.errors import Conflict, InvalidRequest, NotFound
from tgpu.core.hardware.external_use import ExternalUseRules
from tgpu.core.model.ids import DEFAULT_QUEUE, DEFAULT_TENANT, JobId, NodeId
from tgpu.core.model.lifecycle import JobState
from tgpu.devices.api import GpuProcess
from tgpu.devices.simulated import SimulatedProvider
from tgpu.engines.api import AttemptKey, JobMark
from tgpu.engines.local.node_processes import LocalProcesses, booted_at
from tgpu.engines.node_processes import Boot, Who
from tgpu.service.hardware.node_hardware import HardwareRules
from tgpu.store.memory import MemoryStore

RULES = HardwareRules(foreign=ExternalUseRules())


async def adopt(box: Box, pid: int, node: str | None = None) -> JobId:
    return await box.service.adopt(
        pid, tenant_id=DEFAULT_TENANT, queue=DEFAULT_QUEUE, name="", node=node
    )


def foreign(box: Box) -> list[bool]:
    gpus = box.service.state.ledger.nodes[NODE].node.gpus
    return [gpu.foreign is not None for gpu in gpus]


async def test_an_adopted_process_is_a_running_lease_of_its_gpus_until_it_ends() -> None:
    async with a_box(gpus="sim:3xA100", hardware_rules=RULES) as box:
        with a_process() as process:
            for index in (0, 1):
                box.gpus.set(index, processes=[GpuProcess(process.pid, 70_000)])
            await box.service.gpu_monitor.look()
            assert foreign(box) == [True, True, False]
            job_id = await adopt(box, process.pid)
            stored = await box.service.job(job_id)
            placement = stored.progress.placement
            assert placement is not None
            assert [(s.gpu_index, s.millis) for s in placement.shares] == [(0, 1000), (1, 1000)]
            assert (stored.progress.state, stored.progress.pid) == (JobState.RUNNING, process.pid)
            assert stored.detail.name.startswith("python")
            assert stored.detail.user
            await box.service.gpu_monitor.look()
            assert foreign(box) == [False, False, False]
            await box.submit(a_submission("train", job_id="a", gpus=2))
            assert await box.tick(1) == []
        for index in (0, 1):
            box.gpus.set(index, processes=[])
        await box.service.gpu_monitor.look()
        assert await box.state_of(job_id) is JobState.COMPLETED
        assert await box.tick(2) == ["a"]


async def test_an_adopted_process_is_watched_over_a_restart() -> None:
    store, gpus = MemoryStore(), SimulatedProvider("sim:1xA100")
    with a_process() as process:
        gpus.set(0, processes=[GpuProcess(process.pid, 70_000)])
        async with a_box(provider=gpus, store=store, hardware_rules=RULES) as first:
            job_id = await adopt(first, process.pid)
        async with a_box(provider=gpus, store=store, hardware_rules=RULES) as second:
            assert await second.state_of(job_id) is JobState.RUNNING
    gpus.set(0, processes=[])
    async with a_box(provider=gpus, store=store, hardware_rules=RULES) as third:
        assert await third.state_of(job_id) is JobState.COMPLETED


async def test_an_adopted_process_is_the_same_after_the_clock_was_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the machine was started is another time of day then, as the kernel tells it."""
    store, gpus = MemoryStore(), SimulatedProvider("sim:1xA100")
    with a_process() as process:
        gpus.set(0, processes=[GpuProcess(process.pid, 70_000)])
        async with a_box(provider=gpus, store=store, hardware_rules=RULES) as first:
            job_id = await adopt(first, process.pid)
            started = psutil.boot_time()
            monkeypatch.setattr(psutil, "boot_time", lambda: started + 5 * 3600)
            await first.service.gpu_monitor.look()
            assert await first.state_of(job_id) is JobState.RUNNING
        booted_at.cache_clear()
        try:
            async with a_box(provider=gpus, store=store, hardware_rules=RULES) as second:
                await second.service.gpu_monitor.look()
                assert await second.state_of(job_id) is JobState.RUNNING
        finally:
            booted_at.cache_clear()


async def test_a_cancelled_lease_leaves_its_process_alone() -> None:
    async with a_box(gpus="sim:1xA100", hardware_rules=RULES) as box:
        with a_process() as process:
            box.gpus.set(0, processes=[GpuProcess(process.pid, 70_000)])
            job_id = await adopt(box, process.pid)
            await box.service.jobs.cancel(job_id)
            for _ in range(3):
                await box.service.gpu_monitor.look()
            assert process.poll() is None
            assert foreign(box) == [True]


async def test_what_cannot_be_adopted_is_refused_with_the_reason() -> None:
    async with a_box(gpus="sim:2xA100", hardware_rules=RULES) as box:
        with pytest.raises(NotFound, match="no process with this id runs here"):
            await adopt(box, 2**22 + 1)
        with pytest.raises(InvalidRequest, match="this process uses no GPU"):
            await adopt(box, os.getpid())
        with a_process() as process:
            box.gpus.set(0, processes=[GpuProcess(process.pid, 70_000)])
            job_id = await adopt(box, process.pid)
            with pytest.raises(Conflict, match=f"belongs to job {job_id} already"):
                await adopt(box, process.pid)
            await box.submit(a_submission("train", job_id="a"))
            await box.run("a")
            box.gpus.set(0, processes=[])
            box.gpus.set(1, processes=[GpuProcess(process.pid, 10)])
            with pytest.raises(Conflict):
                await adopt(box, process.pid)


class FarProcesses(LocalProcesses):
    """A node elsewhere: its numbers are processes of its own."""

    def __init__(self, *there: Who) -> None:
        self.there = {who.pid: who for who in there}
        self.sent: list[tuple[int, Signals]] = []

    async def look_up(
        self, pids: Iterable[int], known: Mapping[int, Who] | None = None
    ) -> dict[int, Who]:
        return {pid: self.there.get(pid, Who(pid)) for pid in pids}

    def may_run(self, who: Who) -> bool:
        return who.pid in self.there

    async def send(self, who: Who, number: Signals) -> bool:
        self.sent.append((who.pid, number))
        return True

    async def boot(self) -> Boot:
        return Boot("far", 5)


def on(box: Box, name: str, index: int, *pids: int) -> None:
    box.gpus_of[NodeId(name)].set(index, processes=[GpuProcess(pid, 70_000) for pid in pids])


async def test_a_process_of_another_node_is_adopted_where_it_can_be_seen() -> None:
    store, far = MemoryStore(), FarProcesses(Who(4711, "ada", "train", started_at=7))
    nodes = {"far": "sim:1xA100", "dark": "sim:1xA100"}
    async with a_box(
        store=store, gpus="sim:1xA100", nodes=nodes, node_processes={"far": far}
    ) as box:
        on(box, "far", 0, 4711)
        job_id = await adopt(box, 4711)
        stored = await box.service.job(job_id)
        assert stored.progress.placement is not None
        assert stored.progress.placement.node_id == "far"
        assert stored.detail.user == "ada"
    far.there.clear()
    async with a_box(
        store=store, gpus="sim:1xA100", nodes=nodes, node_processes={"far": far}
    ) as again:
        assert await again.state_of(job_id) is JobState.COMPLETED


async def test_a_node_whose_processes_nobody_sees_says_so() -> None:
    async with a_box(gpus="sim:1xA100", nodes={"dark": "sim:1xA100"}) as box:
        on(box, "dark", 0, 4711)
        with pytest.raises(Conflict, match="the processes of node dark cannot be seen from here"):
            await adopt(box, 4711, node="dark")
        with pytest.raises(NotFound, match="there are: "):
            await adopt(box, 4711, node="nowhere")


async def test_a_number_of_two_nodes_needs_the_node() -> None:
    nodes = {"a": "sim:1xA100", "b": "sim:1xA100"}
    seen = {name: FarProcesses(Who(4711, name, "train", started_at=7)) for name in nodes}
    async with a_box(gpus="sim:1xA100", nodes=nodes, node_processes=seen) as box:
        on(box, "a", 0, 4711)
        on(box, "b", 0, 4711)
        with pytest.raises(Conflict, match="say on which node it runs"):
            await adopt(box, 4711)
        job_id = await adopt(box, 4711, node="b")
        assert (await box.service.job(job_id)).detail.user == "b"


async def test_what_outlives_its_job_is_ended_on_its_own_node() -> None:
    mark = JobMark(AttemptKey("gone", 1), "/logs/gone/1")
    far = FarProcesses(Who(4711, "ada", "train", started_at=7, mark=mark))
    async with a_box(
        gpus="sim:1xA100", nodes={"far": "sim:1xA100"}, node_processes={"far": far}
    ) as box:
        for each in box.service.machines:
            each.hardware.ownership.log_dir = lambda key: f"/logs/{key.job_id}/{key.attempt}"
        on(box, "far", 0, 4711)
        await box.service.gpu_monitor.look()
        assert far.sent == [(4711, Signals.SIGTERM)]
