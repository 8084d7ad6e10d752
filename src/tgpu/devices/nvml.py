"""GPUs through NVML, NVIDIA's management library, by its official binding (`pynvml`).

What a GPU is (name, memory, links, NUMA node) is read once; a read asks only how it feels.
"""

import contextlib
import ctypes
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from tgpu.devices.api import GpuReading, NoDriver, Snapshot
from tgpu.devices.gpu_nodes import minor_of
from tgpu.devices.gpu_type import UNKNOWN_TYPE, short_type
from tgpu.devices.host import this_machine
from tgpu.devices.numa import numa_node_of
from tgpu.devices.nvlink import nvlink_groups
from tgpu.devices.nvml_reader import NvmlReader

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
_KEPT_XIDS = 16
_MOST_XIDS_A_READ = 256  # a GPU that raises more has been told often enough


# What NVML says at its start, in words that say what to look at.
_WORDS: Final = {
    "NVML Shared Library Not Found": "the driver's library libnvidia-ml.so.1 was not found",
    "Driver Not Loaded": "the NVIDIA driver is not loaded",
    "Insufficient Permissions": "this user may not read the GPUs",
    "Driver/library version mismatch": "the driver and its library have different versions; "
    "after a driver update the machine must be restarted",
}


class _DriverFailed(Exception):
    """No GPU can be read at all."""


@dataclass(slots=True)
class _Slot:
    """One GPU or MIG slice for the life of the provider; its index never goes to another."""

    facts: GpuReading  # what it is, without measurements
    known: bool = False  # False: it has never answered, so `facts` are placeholders
    handle: object | None = None  # None: must be found again before it can be read
    why: str = ""  # why there is no handle
    endpoints: frozenset[str] = frozenset()  # see nvlink_groups
    unnamed_links: bool = False  # has active links whose far end the driver does not name
    whole: "_Slot | None" = None  # of a MIG slice: the GPU it is cut from
    hidden: bool = False  # cut into slices, or a slice that is no more: nothing a job could have
    address: int | None = None  # of the driver's record of it, by which errors name it
    xids: tuple[int, ...] = ()  # the latest
    xid_count: int = 0


class NvmlProvider:
    """Reads all GPUs in eleven calls each.

    An index, once given, stays with its GPU even where the driver renumbers the remaining ones,
    so whoever hands GPUs to programs names them by UUID.
    """

    name = "nvml"
    simulated = False

    def __init__(self, *, sysfs: Path = Path("/sys")) -> None:
        """Raises NoDriver where the library, the driver or GPUs are missing."""
        self._sysfs = sysfs
        self._nvml = _load_binding()
        self._reader = NvmlReader(self._nvml, self._ask)
        self._slots: list[_Slot] = []
        self._count = 0
        self._events: object | None = None  # the driver's queue of errors; None: it has none
        self._initialised = False
        try:
            self._initialise()
            self._find_gpus()
        except _DriverFailed as error:
            self.close()
            raise NoDriver(_in_words(str(error))) from error
        if not self._slots:
            self.close()
            raise NoDriver("the NVIDIA driver is loaded but lists no GPU")

    def read(self) -> Snapshot:
        try:
            self._initialise()
            self._take_errors()
            self._find_gpus()
            listed = (slot for slot in self._slots if not slot.hidden)
            return Snapshot(self.name, tuple(self._read_slot(slot) for slot in listed))
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
            slot.handle = slot.address = None
        with contextlib.suppress(self._nvml.NVMLError):  # gone already is as good
            if self._events is not None:
                self._nvml.nvmlEventSetFree(self._events)
            self._nvml.nvmlShutdown()
        self._events = None

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
        whole = [slot for slot in self._slots if slot.whole is None]
        if count != self._count or any(slot.handle is None for slot in whole):
            self._count = count
            for slot in whole:
                slot.handle, slot.why = None, "the driver no longer lists it"
            found_new = [self._find_gpu(number) for number in range(count)]
            if any(found_new):
                self._group_by_nvlink()
        for slot in [slot for slot in self._slots if slot.whole is None]:
            self._watch_errors(slot)
            self._find_slices(slot)

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

    # MIG slices.

    def _find_slices(self, whole: _Slot) -> None:
        """Looked at in every read: slices come and go while the driver runs."""
        known = [slot for slot in self._slots if slot.whole is whole]
        if whole.handle is None:
            for slot in known:
                slot.handle, slot.why = None, whole.why
            return
        try:
            mode = self._ask(_current, "nvmlDeviceGetMigMode", whole.handle)
            handles = self._slice_handles(whole.handle) if mode else []
            found = [self._slice_slot(whole, handle) for handle in handles]
        except self._nvml.NVMLError:
            return  # the GPU itself fails: reading it will tell
        whole.hidden = bool(mode)
        for slot in known:
            slot.hidden = slot not in found

    def _slice_handles(self, whole: object) -> list[object]:
        most = self._ask(int, "nvmlDeviceGetMaxMigDeviceCount", whole) or 0
        handles = (
            self._ask(_same, "nvmlDeviceGetMigDeviceHandleByIndex", whole, number)
            for number in range(most)
        )
        return [handle for handle in handles if handle is not None]

    def _slice_slot(self, whole: _Slot, handle: object) -> _Slot:
        uuid = str(self._call("nvmlDeviceGetUUID", handle))
        for slot in self._slots:
            if slot.facts.uuid == uuid:
                slot.handle, slot.hidden = handle, False
                return slot
        slot = self._add_slot()
        slot.whole, slot.handle, slot.known = whole, handle, True
        name = str(self._call("nvmlDeviceGetName", handle))
        slot.facts = replace(
            whole.facts,
            index=slot.facts.index,
            uuid=uuid,
            name=name,
            gpu_type=f"{whole.facts.gpu_type}-{self._profile(name, handle)}",
            memory_mib=self._ask(_total_mib, "nvmlDeviceGetMemoryInfo", handle) or 0,
            nvlink_group=None,  # slices reach no other GPU directly
            slice_of=whole.facts.index,
            instance=self._instance(handle),
        )
        return slot

    def _instance(self, handle: object) -> tuple[int, int] | None:
        outer = self._ask(int, "nvmlDeviceGetGpuInstanceId", handle)
        inner = self._ask(int, "nvmlDeviceGetComputeInstanceId", handle)
        return None if outer is None or inner is None else (outer, inner)

    def _profile(self, name: str, handle: object) -> str:
        """ "1g.10gb", as the driver names the slice, or from its size where it does not."""
        named = re.search(r"\bMIG (\S+)", name)
        if named is not None:
            return named[1]
        return self._ask(_profile_of, "nvmlDeviceGetAttributes_v2", handle) or "slice"

    # Errors, which the driver reports as they happen.

    def _watch_errors(self, slot: _Slot) -> None:
        if slot.handle is None or slot.address is not None:
            return
        slot.address = _address(slot.handle)
        with contextlib.suppress(self._nvml.NVMLError):  # a driver without events tells none
            if self._events is None:
                self._events = self._call("nvmlEventSetCreate")
            kind = self._nvml.nvmlEventTypeXidCriticalError
            self._call("nvmlDeviceRegisterEvents", slot.handle, kind, self._events)

    def _take_errors(self) -> None:
        for _ in range(_MOST_XIDS_A_READ if self._events is not None else 0):
            try:
                event = self._call("nvmlEventSetWait_v2", self._events, 0)
            except self._nvml.NVMLError:  # there are no more
                return
            address = _address(event.device)
            for slot in self._slots:
                if slot.address == address:
                    slot.xids = (*slot.xids, int(event.eventData))[-_KEPT_XIDS:]
                    slot.xid_count += 1

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
            device_minor=self._minor(handle, bus_id),
        )
        far_ends = self._far_ends(handle)
        slot.unnamed_links = "" in far_ends
        slot.endpoints = frozenset(end for end in (*far_ends, bus_id) if end)
        slot.known = True

    def _minor(self, handle: object, bus_id: str | None) -> int | None:
        minor = self._ask(int, "nvmlDeviceGetMinorNumber", handle)
        return minor_of(bus_id) if minor is None and bus_id else minor

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
        reading = self._measured(slot)
        source = slot.whole or slot
        return replace(reading, xids=source.xids, xid_count=source.xid_count)

    def _measured(self, slot: _Slot) -> GpuReading:
        if slot.handle is None:
            return slot.facts.unmeasured(f"lost: {slot.why}")
        try:
            if slot.whole is None:
                return self._reader.whole(slot.facts, slot.handle)
            return self._reader.slice(slot.facts, slot.handle, slot.whole.handle)
        except self._nvml.NVMLError as error:
            # Find it afresh: a handle may not survive a reset.
            (slot.whole or slot).handle = None
            return slot.facts.unmeasured(f"lost: {error}")


def _in_words(complaint: str) -> str:
    return _WORDS.get(complaint, f"the driver reports: {complaint}")


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


def _current(mode: Any) -> int:
    return int(mode[0])


def _same(handle: object) -> object:
    return handle


def _profile_of(attributes: Any) -> str:
    return f"{attributes.gpuInstanceSliceCount}g.{round(attributes.memorySizeMB / 1024)}gb"


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
