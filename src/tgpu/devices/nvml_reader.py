"""Reads a GPU through NVML, function by function; each may be missing.

Sessions, and which GPUs there are, are in `nvml.py`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from tgpu.devices.api import GpuProcess, GpuReading
from tgpu.devices.throttle import throttle_reasons

_MIB = 1024 * 1024
_UNCORRECTED, _SINCE_LOADED = 1, 0  # nvmlMemoryErrorType_t, nvmlEccCounterType_t
_SM_CLOCK = 1  # nvmlClockType_t
_T = TypeVar("_T")


class NvmlCall(Protocol):
    """Calls a function of NVML by name; None where the driver lacks the answer."""

    def __call__(self, convert: Callable[[Any], _T], function: str, *args: object) -> _T | None: ...


class NvmlReader:
    def __init__(self, nvml: Any, ask: NvmlCall) -> None:
        self._nvml = nvml
        self._ask = ask

    def whole(self, facts: GpuReading, handle: object) -> GpuReading:
        """A GPU that is in one piece."""
        used = self._ask(_gpu_percent, "nvmlDeviceGetUtilizationRates", handle)
        return replace(
            self._condition(facts, handle),
            memory_used_mib=self._used_mib(handle),
            utilisation_percent=used,
            processes=self._processes(handle),
            mps=self._mps(handle),
        )

    def slice(self, facts: GpuReading, handle: object, whole: object) -> GpuReading:
        """A MIG slice: its memory and processes are its own, the rest is the whole GPU's."""
        return replace(
            self._condition(facts, whole),
            memory_used_mib=self._used_mib(handle),
            processes=self._processes(handle),
        )

    def _condition(self, facts: GpuReading, handle: object) -> GpuReading:
        ask, nvml = self._ask, self._nvml
        reasons = ask(throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        rows = ask(_remaps, "nvmlDeviceGetRemappedRows", handle)
        return replace(
            facts,
            temperature_c=ask(int, "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            sm_clock_mhz=ask(int, "nvmlDeviceGetClockInfo", handle, _SM_CLOCK),
            throttle=reasons or (),
            ecc_uncorrected=ask(
                int, "nvmlDeviceGetTotalEccErrors", handle, _UNCORRECTED, _SINCE_LOADED
            ),
            remap_pending=None if rows is None else rows[0],
            remap_failed=None if rows is None else rows[1],
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
        # Whose the load is matters only where several share it.
        loads = self._loads(handle) if len(merged) > 1 else {}
        return tuple(GpuProcess(pid, merged[pid], loads.get(pid)) for pid in sorted(merged))

    def _loads(self, handle: object) -> dict[int, int]:
        return self._ask(_load_by_pid, "nvmlDeviceGetProcessUtilization", handle, 0) or {}

    def _mps(self, handle: object) -> bool | None:
        return self._ask(bool, "nvmlDeviceGetMPSComputeRunningProcesses_v3", handle)


def _used_mib(memory: Any) -> int:
    return int(memory.used) // _MIB


def _gpu_percent(rates: Any) -> int:
    return int(rates.gpu)


def _remaps(rows: Any) -> tuple[bool, bool]:
    _, _, pending, failed = rows
    return bool(pending), bool(failed)


def _by_pid(processes: Any) -> dict[int, int | None]:
    return {int(p.pid): _memory_mib(p.usedGpuMemory) for p in processes}


def _load_by_pid(samples: Any) -> dict[int, int]:
    # Several samples of one process come oldest first.
    return {int(sample.pid): min(100, int(sample.smUtil)) for sample in samples}


def _memory_mib(used_bytes: int | None) -> int | None:
    return None if used_bytes is None else used_bytes // _MIB
