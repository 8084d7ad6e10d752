"""The node in the state follows the devices; what an operator paused stays paused."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.service.world import NODE, Box, a_box, a_submission
from tgpu.core.errors import NotFound
from tgpu.core.model.node import Gpu
from tgpu.devices.api import GpuReading, Snapshot
from tgpu.devices.simulated import SimulatedProvider
from tgpu.service.hardware.node_hardware import Hardware
from tgpu.service.service import Service
from tgpu.store.memory import MemoryStore


@pytest.fixture
async def box() -> AsyncIterator[Box]:
    async with a_box(leases=True, gpus="sim:2xA100") as made:
        yield made


def gpus(service: Service) -> tuple[Gpu, ...]:
    return service.state.ledger.nodes[NODE].node.gpus


async def see(box: Box, snapshot: Snapshot) -> bool:
    service = box.service
    return await service.hardware.observe(snapshot, service.writer, service.clock)


def a_reading(index: int, uuid: str) -> GpuReading:
    return GpuReading(index, uuid, "NVIDIA A100", "A100", 81_920)


async def test_a_reading_that_decides_nothing_new_is_not_recorded(box: Box) -> None:
    journal = await box.service.store.journal(0, 100)
    box.gpus.set(0, temperature_c=90, utilisation_percent=100)
    assert await see(box, box.gpus.read()) is False
    assert await box.service.store.journal(0, 100) == journal
    assert box.service.hardware.snapshot is not None
    assert box.service.hardware.snapshot.gpus[0].temperature_c == 90  # shown all the same


async def test_a_lost_gpu_gets_no_new_job_until_it_is_back(box: Box) -> None:
    box.gpus.set(0, lost=True)
    assert await see(box, box.gpus.read()) is True
    assert gpus(box.service)[0].problem is not None
    await box.submit(a_submission(job_id="a"))
    await box.submit(a_submission(job_id="b"))
    assert await box.tick(1) == ["a"]
    stored = await box.service.job("a")
    assert stored.progress.placement is not None
    assert [share.gpu_index for share in stored.progress.placement.shares] == [1]
    box.gpus.set(0, lost=False)
    await see(box, box.gpus.read())
    assert await box.tick(2) == ["b"]


async def test_a_paused_gpu_gets_no_new_job_until_it_is_resumed(box: Box) -> None:
    await box.service.pause_gpu(0, "new fans")
    await box.submit(a_submission(job_id="a", gpus=2))
    assert await box.tick(1) == []
    await box.service.pause_gpu(0, None)
    assert await box.tick(2) == ["a"]


async def test_what_runs_on_a_paused_gpu_goes_on(box: Box) -> None:
    await box.submit(a_submission(job_id="a", gpus=2))
    await box.tick(1)
    await box.service.pause_gpu(0, "new fans")
    await box.tick(2)
    assert [entry.job.job_id for entry in box.service.state.placed()] == ["a"]


async def test_a_pause_survives_a_new_reading(box: Box) -> None:
    await box.service.pause_gpu(1, "new fans")
    box.gpus.set(0, lost=True)
    await see(box, box.gpus.read())
    assert [gpu.paused for gpu in gpus(box.service)] == [None, "new fans"]


async def test_a_pause_between_a_look_and_its_turn_at_the_writer_is_not_undone(box: Box) -> None:
    box.gpus.set(0, lost=True)
    await asyncio.gather(
        box.service.pause_gpu(1, "new fans"), see(box, box.gpus.read()), see(box, box.gpus.read())
    )
    assert [gpu.paused for gpu in gpus(box.service)] == [None, "new fans"]
    assert gpus(box.service)[0].problem is not None


async def test_a_pause_survives_a_restart() -> None:
    store = MemoryStore()
    async with a_box(leases=True, gpus="sim:2xA100", store=store) as first:
        await first.service.pause_gpu(1, "new fans")
    async with a_box(leases=True, gpus="sim:2xA100", store=store) as second:
        assert [gpu.paused for gpu in gpus(second.service)] == [None, "new fans"]


async def test_a_pause_belongs_to_the_card_and_not_to_its_number(box: Box) -> None:
    await see(box, Snapshot("nvml", (a_reading(0, "GPU-a"), a_reading(1, "GPU-b"))))
    await box.service.pause_gpu(0, "GPU-a is ill")
    await see(box, Snapshot("nvml", (a_reading(0, "GPU-b"), a_reading(1, "GPU-a"))))
    assert [(gpu.uuid, gpu.paused) for gpu in gpus(box.service)] == [
        ("GPU-b", None),
        ("GPU-a", "GPU-a is ill"),
    ]


async def test_a_driver_that_tells_nothing_takes_no_gpu_and_no_pause_away(box: Box) -> None:
    await box.service.pause_gpu(1, "new fans")
    await see(box, Snapshot("nvml", (), problem="slow: no answer in 5 s"))
    assert [(gpu.index, gpu.problem) for gpu in gpus(box.service)] == [
        (0, "slow: no answer in 5 s"),
        (1, "slow: no answer in 5 s"),
    ]
    await see(box, box.gpus.read())
    assert [(gpu.problem, gpu.paused) for gpu in gpus(box.service)] == [
        (None, None),
        (None, "new fans"),
    ]


async def test_a_restart_with_a_silent_driver_keeps_what_was_known() -> None:
    class Silent(SimulatedProvider):
        def read(self) -> Snapshot:
            return Snapshot("simulated", (), problem="slow: no answer in 5 s")

    store = MemoryStore()
    async with a_box(leases=True, gpus="sim:2xA100", store=store) as first:
        await first.service.pause_gpu(1, "new fans")
    async with a_box(leases=True, provider=Silent("sim:2xA100"), store=store) as second:
        assert [gpu.paused for gpu in gpus(second.service)] == [None, "new fans"]
        assert second.service.problems() == ["GPU driver: slow: no answer in 5 s"]


async def test_an_unknown_index_is_named_with_those_there_are(box: Box) -> None:
    with pytest.raises(NotFound, match="this machine has: 0, 1"):
        await box.service.pause_gpu(7, "why not")


async def test_the_node_carries_the_labels_it_was_given() -> None:
    async with a_box(leases=True) as box:
        labelled = Hardware(NODE, 1000, 1000, simulated=True, labels=(("rack", "r1"),))
        service = box.service
        await labelled.observe(box.gpus.read(), service.writer, service.clock)
        assert service.state.ledger.nodes[NODE].node.labels == (("rack", "r1"),)
