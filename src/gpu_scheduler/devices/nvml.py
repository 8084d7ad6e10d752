"""GPUs through NVML, NVIDIA's management library, by its official binding (`pynvml`).

What a GPU is (name, memory, links, NUMA node) is read once; a read asks only how it feels.
"""

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from gpu_scheduler.devices.api import GpuProcess, GpuReading, NoDriver, Snapshot
from gpu_scheduler.devices.gpu_type import UNKNOWN_TYPE, short_type
from gpu_scheduler.devices.host import this_machine
from gpu_scheduler.devices.numa import numa_node_of
from gpu_scheduler.devices.nvlink import nvlink_groups

_MIB = 1024 * 1024
_T = TypeVar("_T")

# NVML's return codes (nvml.h), which are part of its ABI.
_INVALID_ARGUMENT, _GPU_IS_LOST, _RESET_REQUIRED = 2, 15, 16
# The driver or this GPU model does not have it, or we may not see it: not supported, no
# permission, not found, function not found, no data, version mismatch, deprecated.
_LACKING = frozenset({3, 4, 6, 13, 21, 25, 26})
# Not this GPU but everything: uninitialised, driver not loaded, library gone, and a library
# that no longer matches the driver (an upgrade under our feet).
_DRIVER_GONE = frozenset({1, 9, 12, 18})


class _DriverFailed(Exception):
    """No GPU can be read at all."""


@dataclass(slots=True)
class _Slot:
    """One GPU for the life of the provider; its index here never goes to another GPU."""

    facts: GpuReading  # what it is, without measurements
    known: bool = False  # False: it has never answered, so `facts` are placeholders
    handle: object | None = None  # None: must be found again before it can be read
    why: str = ""  # why there is no handle
    endpoints: frozenset[str] = frozenset()  # see nvlink_groups
    unnamed_links: bool = False  # has active links whose far end the driver does not name


class NvmlProvider:
    """Reads all GPUs in five calls each.

    An index, once given, stays with its GPU even where the driver renumbers the remaining ones,
    so whoever hands GPUs to programs names them by UUID.
    """

    name = "nvml"
    simulated = False

    def __init__(self, *, sysfs: Path = Path("/sys")) -> None:
        """Raises NoDriver where the library, the driver or GPUs are missing."""
        self._sysfs = sysfs
        self._nvml = _load_binding()
        self._slots: list[_Slot] = []
        self._count = 0
        self._initialised = False
        try:
            self._initialise()
            self._find_gpus()
        except _DriverFailed as error:
            self.close()
            raise NoDriver(str(error)) from error
        if not self._slots:
            self.close()
            raise NoDriver("the NVIDIA driver is loaded but lists no GPU")

    def read(self) -> Snapshot:
        try:
            self._initialise()
            self._find_gpus()
            return Snapshot(self.name, tuple(self._read_slot(slot) for slot in self._slots))
        except _DriverFailed as error:
            # Start afresh at the next read: a driver that comes back needs a new session.
            self.close()
            problem = f"driver failed: {error}"
            gpus = tuple(slot.facts.unmeasured(problem) for slot in self._slots)
            return Snapshot(self.name, gpus, problem)

    def close(self) -> None:
        if not self._initialised:
            return
        self._initialised = False
        for slot in self._slots:
            slot.handle = None
        with contextlib.suppress(self._nvml.NVMLError):  # gone already is as good
            self._nvml.nvmlShutdown()

    # The session with the driver.

    def _initialise(self) -> None:
        if self._initialised:
            return
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise _DriverFailed(str(error)) from error
        self._initialised = True
        self._count = -1

    def _call(self, function: str, *args: object) -> Any:
        """An NVML call that tells a failing driver from a failing GPU."""
        try:
            return getattr(self._nvml, function)(*args)
        except self._nvml.NVMLError as error:
            if error.value in _DRIVER_GONE:
                raise _DriverFailed(str(error)) from error
            raise

    def _ask(self, convert: Callable[[Any], _T], function: str, *args: object) -> _T | None:
        """None where the driver lacks the answer."""
        try:
            return convert(self._call(function, *args))
        except self._nvml.NVMLError as error:
            if error.value in _LACKING:
                return None
            raise

    # Which GPUs there are.

    def _find_gpus(self) -> None:
        count = self._device_count()
        if count == self._count and all(slot.handle is not None for slot in self._slots):
            return
        self._count = count
        for slot in self._slots:
            slot.handle, slot.why = None, "the driver no longer lists it"
        found_new = [self._find_gpu(number) for number in range(count)]
        if any(found_new):
            self._group_by_nvlink()

    def _device_count(self) -> int:
        try:
            return int(self._call("nvmlDeviceGetCount"))
        except self._nvml.NVMLError as error:
            raise _DriverFailed(str(error)) from error

    def _find_gpu(self, number: int) -> bool:
        """Give the driver's n-th GPU its slot; True when it was never seen before."""
        try:
            handle = self._call("nvmlDeviceGetHandleByIndex", number)
            uuid = str(self._call("nvmlDeviceGetUUID", handle))
            slot = self._slot_of(uuid, number)
            if not slot.known:
                self._learn(slot, handle, uuid)
                slot.handle = handle
                return True
            slot.handle = handle
        except self._nvml.NVMLError as error:
            if number >= len(self._slots):
                self._add_slot()
            self._slots[number].why = str(error)
        return False

    def _slot_of(self, uuid: str, number: int) -> _Slot:
        for slot in self._slots:
            if slot.known and slot.facts.uuid == uuid:
                return slot
        if number < len(self._slots) and not self._slots[number].known:
            return self._slots[number]
        return self._add_slot()

    def _add_slot(self) -> _Slot:
        index = len(self._slots)
        slot = _Slot(GpuReading(index, f"GPU-unknown-{index}", "unknown GPU", UNKNOWN_TYPE, 0))
        self._slots.append(slot)
        return slot

    # What a GPU is.

    def _learn(self, slot: _Slot, handle: object, uuid: str) -> None:
        name = str(self._call("nvmlDeviceGetName", handle))
        bus_id = self._ask(_bus_id, "nvmlDeviceGetPciInfo", handle)
        memory_mib = self._ask(_total_mib, "nvmlDeviceGetMemoryInfo", handle)
        if memory_mib is None:
            # No memory of its own (GB10, Jetson): it shares the machine's.
            memory_mib = this_machine().memory_mib
        numa_node = numa_node_of(bus_id, self._sysfs) if bus_id else None
        if numa_node is None:
            numa_node = self._ask(int, "nvmlDeviceGetNumaNodeId", handle)
        slot.facts = replace(
            slot.facts,
            uuid=uuid,
            name=name,
            gpu_type=short_type(name),
            memory_mib=memory_mib,
            numa_node=numa_node,
        )
        far_ends = self._far_ends(handle)
        slot.unnamed_links = "" in far_ends
        slot.endpoints = frozenset(end for end in (*far_ends, bus_id) if end)
        slot.known = True

    def _far_ends(self, handle: object) -> set[str]:
        """The bus ids at the other ends of the active links; "" for one that is not named."""
        ends = set()
        for link in range(self._nvml.NVML_NVLINK_MAX_LINKS):
            try:
                if self._call("nvmlDeviceGetNvLinkState", handle, link):
                    remote = self._ask(_bus_id, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
                    ends.add(remote or "")
            except self._nvml.NVMLError as error:
                if error.value in (_GPU_IS_LOST, _RESET_REQUIRED):
                    raise
                if error.value == _INVALID_ARGUMENT:
                    break  # past the last link of this model
                # Whatever else ails a link (no fabric manager, …), the GPU works without it.
        return ends

    def _group_by_nvlink(self) -> None:
        known = {slot.facts.index: slot.endpoints for slot in self._slots if slot.known}
        groups = nvlink_groups(known, self._direct_pairs())
        for slot in self._slots:
            slot.facts = replace(slot.facts, nvlink_group=groups.get(slot.facts.index))

    def _direct_pairs(self) -> list[tuple[int, int]]:
        unnamed = [s for s in self._slots if s.unnamed_links and s.handle is not None]
        return [
            (one.facts.index, other.facts.index)
            for position, one in enumerate(unnamed)
            for other in unnamed[position + 1 :]
            if self._reach_each_other(one.handle, other.handle)
        ]

    def _reach_each_other(self, one: object, other: object) -> bool:
        nvml = self._nvml
        try:
            status = self._call(
                "nvmlDeviceGetP2PStatus", one, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK
            )
        except nvml.NVMLError:
            return False
        return bool(status == nvml.NVML_P2P_STATUS_OK)

    # How it feels.

    def _read_slot(self, slot: _Slot) -> GpuReading:
        if slot.handle is None:
            return slot.facts.unmeasured(f"lost: {slot.why}")
        try:
            return self._measure(slot.facts, slot.handle)
        except self._nvml.NVMLError as error:
            slot.handle = None  # find it afresh: a handle may not survive a reset
            return slot.facts.unmeasured(f"lost: {error}")

    def _measure(self, facts: GpuReading, handle: object) -> GpuReading:
        return replace(
            facts,
            memory_used_mib=self._used_mib(handle),
            temperature_c=self._ask(
                int, "nvmlDeviceGetTemperature", handle, self._nvml.NVML_TEMPERATURE_GPU
            ),
            utilisation_percent=self._ask(_gpu_percent, "nvmlDeviceGetUtilizationRates", handle),
            processes=self._processes(handle),
        )

    def _used_mib(self, handle: object) -> int | None:
        # The first version counts what the driver reserves for itself (some 600 MiB on an idle
        # H100) as used; older drivers have no second one.
        second = self._nvml.nvmlMemory_v2
        used = self._ask(_used_mib, "nvmlDeviceGetMemoryInfo", handle, second)
        return self._ask(_used_mib, "nvmlDeviceGetMemoryInfo", handle) if used is None else used

    def _processes(self, handle: object) -> tuple[GpuProcess, ...]:
        compute = self._ask(_by_pid, "nvmlDeviceGetComputeRunningProcesses_v3", handle)
        if compute is None:  # drivers before 510
            compute = self._ask(_by_pid, "nvmlDeviceGetComputeRunningProcesses_v2", handle)
        graphics = self._ask(_by_pid, "nvmlDeviceGetGraphicsRunningProcesses_v3", handle)
        # One that computes and draws is in both lists with the same figure.
        merged = (graphics or {}) | (compute or {})
        return tuple(GpuProcess(pid, merged[pid]) for pid in sorted(merged))


def _load_binding() -> Any:
    """Imported here, not above: it costs 30 ms that machines without GPUs need not pay."""
    try:
        return importlib.import_module("pynvml")
    except ImportError as error:
        raise NoDriver("the Python package nvidia-ml-py is not installed") from error


def _bus_id(pci_info: Any) -> str:
    """In capitals; "" for all zeros or ones, which stand for a device the driver does not name."""
    value = pci_info.busId
    bus_id = str(value.decode() if isinstance(value, bytes) else value).upper()
    return "" if bus_id.startswith("FFFFFFFF") or not bus_id.strip("0:.") else bus_id


def _total_mib(memory: Any) -> int:
    return int(memory.total) // _MIB


def _used_mib(memory: Any) -> int:
    return int(memory.used) // _MIB


def _gpu_percent(rates: Any) -> int:
    return int(rates.gpu)


def _by_pid(processes: Any) -> dict[int, int | None]:
    return {int(p.pid): _memory_mib(p.usedGpuMemory) for p in processes}


def _memory_mib(used_bytes: int | None) -> int | None:
    return None if used_bytes is None else used_bytes // _MIB
