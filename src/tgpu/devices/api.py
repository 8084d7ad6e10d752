"""The interface of GPU providers: what they report about the GPUs of this machine."""

from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory on a GPU, whoever started it."""

    pid: int
    memory_mib: int | None  # None: the driver does not tell (MIG, WSL, some containers)
    sm_percent: int | None = None  # its part of the GPU's time, of late


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment. What the driver does not tell is None, never a made-up zero."""

    index: int
    uuid: str
    name: str  # the product's full name: "NVIDIA A100-SXM4-80GB"
    gpu_type: str  # the short name that jobs ask for: "A100"
    memory_mib: int
    memory_used_mib: int | None = None
    temperature_c: int | None = None
    utilisation_percent: int | None = None
    nvlink_group: int | None = None  # GPUs with the same number reach each other over NVLink
    numa_node: int | None = None
    processes: tuple[GpuProcess, ...] = ()
    slice_of: int | None = None  # a MIG slice: the index of the GPU it is cut from
    instance: tuple[int, int] | None = None  # … and its numbers as GPU and compute instance
    device_minor: int | None = None  # N of its /dev/nvidiaN, which need not be its index
    mps: bool | None = None  # whether an MPS server shares it between programs
    sm_clock_mhz: int | None = None
    throttle: tuple[str, ...] = ()  # why the driver slows it down, in words: see `throttle.py`
    ecc_uncorrected: int | None = None  # memory errors since the driver was loaded
    remap_pending: bool | None = None  # rows wait for a reset to be remapped
    remap_failed: bool | None = None
    xids: tuple[int, ...] = ()  # the latest of the driver's error codes, oldest first
    xid_count: int = 0  # all since the provider began; `xids` has only the last few
    problem: str | None = None  # why it can take no job ("lost: …"); None when it is well

    def unmeasured(self, problem: str | None) -> "GpuReading":
        """The same GPU with what it is but not how it feels: old measurements would mislead."""
        return replace(
            self,
            memory_used_mib=None,
            temperature_c=None,
            utilisation_percent=None,
            processes=(),
            mps=None,
            sm_clock_mhz=None,
            throttle=(),
            ecc_uncorrected=None,
            remap_pending=None,
            remap_failed=None,
            problem=problem,
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All GPUs of this machine at one moment, by index."""

    provider: str  # "nvml", "nvidia-smi" or "simulated"
    gpus: tuple[GpuReading, ...]
    problem: str | None = None  # the driver as a whole: "slow: no answer in 5 s", …


# So begins the problem of a GPU whose reading is old, because the driver gives no new ones.
STALE: Final = "stale: "


class NoDriver(Exception):
    """This provider cannot work here; the message says why, for `tgpu doctor`."""


class GPUProvider(Protocol):
    """Reads the GPUs. Calls block; `DeviceWatch` keeps them off the event loop.

    A provider that worked once never raises from `read`: a lost GPU stays in the list with its
    `problem`, a failing driver gives a snapshot with `problem`.
    """

    name: str
    simulated: bool

    def read(self) -> Snapshot: ...

    def close(self) -> None: ...


@runtime_checkable
class InstantProvider(Protocol):
    """One whose readings cost nothing: no driver is asked."""

    def at_once(self) -> Snapshot | None:
        """As `read`, the same object for as long as nothing changed; None: `read` takes time."""
