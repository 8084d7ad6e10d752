"""Which devices a launch opens, and what is said where that cannot be told."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.service.eventually import eventually
from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.model.job import Request
from tgpu.core.model.lifecycle import JobState
from tgpu.devices.control_groups import GroupTree
from tgpu.devices.fencing import FenceKind, FenceTree
from tgpu.devices.gpu_nodes import GpuNodes
from tgpu.engines.api import Fence
from tgpu.service.execution.fencing import FenceMode, GpuFences

ALL = (195, 0, 253)
WAY = FenceTree(FenceKind.PROGRAM, GroupTree(Path("/x"), 2))


def fence(box: Box, tmp_path: Path, mode: FenceMode, *, known: bool = True) -> GpuFences:
    """As on a machine whose GPUs are real, and numbered the other way round."""
    (tmp_path / "devices").write_text("Character devices:\n195 nvidia\n")
    hardware = box.service.hardware
    hardware.simulated = False
    assert hardware.snapshot is not None
    gpus = hardware.snapshot.gpus
    numbered = [replace(gpu, device_minor=9 - gpu.index if known else None) for gpu in gpus]
    hardware.snapshot = replace(hardware.snapshot, gpus=tuple(numbered))
    fences = GpuFences(mode, hardware, GpuNodes(tmp_path, tmp_path), lambda: WAY)
    assert box.service._attempts is not None
    box.service._attempts._fences = fences
    return fences


async def launched(box: Box) -> list[Fence | None]:
    await box.tick()
    await eventually(lambda: box.engine.launched, "the launch")
    return [launch.fence for launch in box.engine.launched]


async def test_a_job_opens_its_gpus_by_their_minor_numbers(tmp_path: Path) -> None:
    async with a_box() as box:
        fences = fence(box, tmp_path, FenceMode.AUTO)
        assert fences.describe() == "control groups version 2, eBPF"
        await box.submit(a_submission("true", gpus=2, gpu_type="A100"))
        (found,) = await launched(box)
        job = next(iter(box.service.state.placed()))
        placement = job.progress.placement
        assert found is not None
        assert placement is not None
        indexes = sorted(share.gpu_index for share in placement.shares)
        assert found == Fence(tuple((195, 9 - index) for index in indexes), (ALL,), required=False)


async def test_sharers_of_a_gpu_open_it_all(tmp_path: Path) -> None:
    async with a_box(gpus="sim:1xA100") as box:
        fence(box, tmp_path, FenceMode.ON)
        for name in ("a", "b"):
            await box.submit(a_submission("true", job_id=name, gpus=0.5))
        await box.tick()
        await eventually(lambda: len(box.engine.launched) == 2, "both launches")
        fences = {launch.fence for launch in box.engine.launched}
        assert fences == {Fence(((195, 9),), (ALL,), required=True)}


async def test_a_gang_opens_what_its_workers_have(tmp_path: Path) -> None:
    async with a_box() as box:
        fence(box, tmp_path, FenceMode.AUTO)
        request = Request(2000, "H100", workers=2)
        await box.submit(a_submission("true", request=request))
        (found,) = await launched(box)
        assert found is not None
        assert sorted(found.opened) == [(195, 4), (195, 5)]


async def test_what_cannot_be_told_lets_a_job_start_unless_it_must(tmp_path: Path) -> None:
    async with a_box() as box:
        fence(box, tmp_path, FenceMode.AUTO, known=False)
        await box.submit(a_submission("true"))
        assert await launched(box) == [None]
        fence(box, tmp_path, FenceMode.ON, known=False)
        await box.submit(a_submission("true", job_id="must"))
        await box.tick()
        await box.until("must", JobState.FAILED)
        cause = (await box.service.job("must")).progress.cause
        assert cause is not None
        assert "does not tell the minor number of GPU" in cause
        assert "engine.fence_gpus is on" in cause


@pytest.mark.parametrize(
    ("mode", "simulated", "said"),
    [
        (FenceMode.OFF, False, "no: engine.fence_gpus is off"),
        (FenceMode.ON, True, "no: the GPUs are simulated"),
    ],
)
async def test_where_nothing_is_to_be_fenced_nothing_is(
    tmp_path: Path, mode: FenceMode, simulated: bool, said: str
) -> None:
    async with a_box() as box:
        fences = fence(box, tmp_path, mode)
        box.service.hardware.simulated = simulated
        await box.submit(a_submission("true"))
        assert await launched(box) == [None]
        assert fences.describe() == said


async def test_why_there_is_no_way_is_said(tmp_path: Path) -> None:
    async with a_box() as box:
        box.service.hardware.simulated = False
        fences = GpuFences(FenceMode.AUTO, box.service.hardware, look=lambda: "only root may")
        assert fences.describe() == "no: only root may"
