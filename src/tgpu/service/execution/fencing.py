"""GPU isolation of jobs: which devices each can open, and whether the settings ask for it.

A job is told its GPUs by CUDA_VISIBLE_DEVICES, which it can change; what the kernel is told of its
devices it cannot.
"""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import structlog

from tgpu.core.model.lifecycle import Progress
from tgpu.devices.api import Snapshot
from tgpu.devices.fencing import FenceTree, fence_tree
from tgpu.devices.gpu_nodes import GpuNodes, NoDevices
from tgpu.engines.api import Fence
from tgpu.service.hardware.node_hardware import Hardware

_log = structlog.get_logger("gpu_scheduler.fencing")

_SIMULATED: Final = "no: the GPUs are simulated"
_OFF: Final = "no: engine.fence_gpus is off"


class FenceMode(StrEnum):
    AUTO = "auto"  # where the kernel lets us
    ON = "on"  # or no job starts
    OFF = "off"


class CannotFence(Exception):
    """The sentence why a job does not start."""


class GpuFences:
    def __init__(
        self,
        mode: FenceMode,
        hardware: Hardware,
        nodes: GpuNodes | None = None,
        look: Callable[[], FenceTree | str] = fence_tree,
    ) -> None:
        self._mode = mode
        self._hardware = hardware
        self._nodes = nodes or GpuNodes()
        self._look = look
        self._way: FenceTree | str | None = None
        self._told = ""  # the last problem that was logged

    def describe(self) -> str:
        """For people: how jobs are fenced on this machine, or why they are not."""
        if self._mode is FenceMode.OFF:
            return _OFF
        if self._hardware.simulated:
            return _SIMULATED
        if self._way is None:  # asked once: it does not change while we run
            self._way = self._look()
        return f"no: {self._way}" if isinstance(self._way, str) else str(self._way.kind)

    def describe_for(self, hardware: Hardware) -> str:
        """The same for one node; "" where it is another machine's, which nobody here fences."""
        return self.describe() if hardware is self._hardware else ""

    async def of(self, progress: Progress) -> Fence | None:
        """For an attempt that is about to start; None for none. Raises CannotFence."""
        if self._mode is FenceMode.OFF or self._hardware.simulated:
            return None
        snapshot = self._hardware.snapshot
        try:
            # In a thread: a driver in trouble may be slow to tell of its devices.
            return await asyncio.to_thread(self._fence, progress, snapshot)
        except NoDevices as problem:
            sentence = f"it cannot be isolated from other GPUs: {problem}"
            if self._mode is FenceMode.ON:
                raise CannotFence(f"{sentence} (engine.fence_gpus is on)") from None
            if sentence != self._told:
                self._told = sentence
                _log.warning("jobs start without GPU isolation", problem=str(problem))
            return None

    def _fence(self, progress: Progress, snapshot: Snapshot | None) -> Fence:
        placement = progress.placement
        gpus = placement.gpus() if placement is not None else ()
        # Of all its workers on this machine, which are one attempt here.
        indexes = {index for node_id, index in gpus if node_id == self._hardware.node_id}
        readings = {gpu.index: gpu for gpu in snapshot.gpus} if snapshot is not None else {}
        missing = sorted(indexes - readings.keys())
        if missing:
            raise NoDevices(f"GPU {missing[0]} is not listed by the driver")
        devices = self._nodes.devices_for([readings[index] for index in sorted(indexes)])
        return Fence(devices.opened, devices.shut, required=self._mode is FenceMode.ON)
