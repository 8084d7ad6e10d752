"""The device files of GPUs: those a job needs for its own GPUs, and no more.

`/dev/nvidia3` is the GPU whose minor number is 3, which need not be its index. What all of them
share (nvidiactl, nvidia-uvm, nvidia-modeset, …) is left to everybody. A MIG slice is reached
through its GPU's device and two of `/dev/nvidia-caps`, whose numbers the driver tells in /proc.
"""

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tgpu.devices.api import GpuReading
from tgpu.devices.device_program import Device, DeviceRange

# The driver's name in /proc/devices; older ones have the second.
_DRIVERS: Final = ("nvidia", "nvidia-frontend")
_CAPABILITIES: Final = "nvidia-caps"
# Of its minor numbers, 254 and 255 are nvidia-modeset and nvidiactl, which every program needs.
_LAST_GPU: Final = 253


@dataclass(frozen=True, slots=True)
class GpuDevices:
    """What of all GPUs is shut, and which of it is opened."""

    opened: tuple[Device, ...]
    shut: tuple[DeviceRange, ...]


class NoDevices(Exception):
    """The sentence why it cannot be told which devices these GPUs are."""


class GpuNodes:
    def __init__(self, proc: Path = Path("/proc"), dev: Path = Path("/dev")) -> None:
        self._proc = proc
        self._dev = dev

    def devices_for(self, own: Sequence[GpuReading]) -> GpuDevices:
        """For a job that has these. Reads a few small files. Raises NoDevices."""
        majors = self._majors()
        numbers = [majors[name] for name in _DRIVERS if name in majors]
        own_nodes = [self._node(gpu, numbers) for gpu in own]
        opened = list(dict.fromkeys(own_nodes))
        shut = [
            DeviceRange(major, 0, _LAST_GPU)
            for major in sorted({*numbers, *(node.major for node in own_nodes)})
        ]
        if not shut:
            raise NoDevices(f"{self._proc}/devices names no NVIDIA driver")
        if _CAPABILITIES in majors:
            major = majors[_CAPABILITIES]
            opened += [Device(major, minor) for minor in self._slice_minors(own)]
            others = sorted(set(self._all_slice_minors()))
            shut += [DeviceRange(major, minor, minor) for minor in others]
        return GpuDevices(tuple(opened), tuple(shut))

    def _majors(self) -> dict[str, int]:
        found: dict[str, int] = {}
        try:
            text = (self._proc / "devices").read_text()
        except OSError as error:
            raise NoDevices(f"{self._proc}/devices cannot be read: {error.strerror}") from error
        for line in text.partition("Block devices:")[0].splitlines():
            number, _, name = line.strip().partition(" ")
            if number.isdigit():
                found[name] = int(number)
        return found

    def _node(self, gpu: GpuReading, majors: list[int]) -> Device:
        if gpu.device_minor is None:
            raise NoDevices(f"the driver does not tell the minor number of GPU {gpu.index}")
        path = self._dev / f"nvidia{gpu.device_minor}"
        try:
            found = os.stat(path)
        except OSError:
            found = None
        if found is not None and stat.S_ISCHR(found.st_mode):
            return Device(os.major(found.st_rdev), os.minor(found.st_rdev))
        if not majors:
            raise NoDevices(f"there is no {path}, and {self._proc}/devices names no NVIDIA driver")
        return Device(majors[0], gpu.device_minor)  # the driver makes its file when it is needed

    def _slice_minors(self, own: Iterable[GpuReading]) -> list[int]:
        found = []
        for gpu in own:
            if gpu.device_minor is None or gpu.instance is None:
                continue
            outer, inner = gpu.instance
            folder = self._folder / f"gpu{gpu.device_minor}" / "mig" / f"gi{outer}"
            found += [_minor(folder / "access"), _minor(folder / f"ci{inner}" / "access")]
        return [minor for minor in found if minor is not None]

    def _all_slice_minors(self) -> list[int]:
        paths = [
            *self._folder.glob("gpu*/mig/gi*/access"),
            *self._folder.glob("gpu*/mig/gi*/ci*/access"),
        ]
        return [minor for minor in map(_minor, paths) if minor is not None]

    @property
    def _folder(self) -> Path:
        return self._proc / "driver/nvidia/capabilities"


def minor_of(pci_bus_id: str, proc: Path = Path("/proc")) -> int | None:
    """The minor number of the GPU at "00000000:3B:00.0" (the driver's spelling), from /proc."""
    domain, _, rest = pci_bus_id.strip().lower().partition(":")
    try:
        name = f"{int(domain, 16):04x}:{rest}"
        text = (proc / "driver/nvidia/gpus" / name / "information").read_text()
    except (OSError, ValueError):
        return None
    found = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else None


def _minor(path: Path) -> int | None:
    try:
        found = re.search(r"^DeviceFileMinor:\s*(\d+)", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None
