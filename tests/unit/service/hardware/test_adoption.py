"""Processes that were started by hand become leases, for as long as they run."""

import os

import psutil
import pytest

from tests.unit.service.processes import a_process
from tests.unit.service.world import NODE, Box, a_box, a_submission
from tgpu.core.errors import Conflict, InvalidRequest, NotFound
from tgpu.core.hardware.external_use import ExternalUseRules
from tgpu.core.model.ids import DEFAULT_QUEUE, DEFAULT_TENANT, JobId
from tgpu.core.model.lifecycle import JobState
from tgpu.devices.api import GpuProcess
from tgpu.devices.simulated import SimulatedProvider
from tgpu.service.hardware.node_hardware import HardwareRules
from tgpu.service.hardware.processes import booted_at
from tgpu.store.memory import MemoryStore

RULES = HardwareRules(foreign=ExternalUseRules())


async def adopt(box: Box, pid: int) -> JobId:
    return await box.service.adopt(pid, tenant_id=DEFAULT_TENANT, queue=DEFAULT_QUEUE, name="")


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
