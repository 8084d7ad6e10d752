"""Simulated GPUs (`sim:8xA100`), for laptops, tests and demos. Their numbers can be set while
they are in use: by method, or from outside through a JSON file.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from tgpu.devices.api import GpuProcess, GpuReading, Snapshot
from tgpu.devices.sim_spec import SimSpec, has_nvlink, parse_sim_spec

__all__ = ["SimSpec", "SimulatedProvider", "parse_sim_spec"]

_IDLE_TEMPERATURE_C = 35
_NVLINK_ISLAND = 8  # GPUs on one NVLink switch in the usual server


class _ProcessState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pid: int
    memory_mib: int | None = None
    sm_percent: int | None = None


class _GpuState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was set for a GPU; None: not set."""

    temperature_c: int | None = None
    memory_used_mib: int | None = None
    utilisation_percent: int | None = None
    processes: list[_ProcessState] | None = None
    lost: bool | None = None
    sm_clock_mhz: int | None = None
    throttle: list[str] | None = None
    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    xids: list[int] | None = None  # all errors so far, oldest first
    mps: bool | None = None
    slice_of: int | None = None

    def over(self, other: "_GpuState") -> "_GpuState":
        """Both, and where both say something, this one's word."""
        mine = {
            name: value for name, value in msgspec.structs.asdict(self).items() if value is not None
        }
        return msgspec.structs.replace(other, **mine)


class _FileState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state file: {"all": {…}, "gpus": {"3": {"temperature_c": 91}}, "delay_ms": 0}."""

    all: _GpuState = _GpuState()
    gpus: dict[int, _GpuState] = {}
    problem: str | None = None  # the driver as a whole fails with these words
    delay_ms: int = 0  # each read takes this long: a slow driver


@dataclass(frozen=True, slots=True)
class _FileVersion:
    modified_ns: int
    size: int
    inode: int


class SimulatedProvider:
    """Invented GPUs with stable UUIDs. They stay as they are until something sets them.

    The state file is looked at in every read. Write a temporary file and rename it over, so that
    no half of it is read; one that cannot be understood changes nothing and shows up as the
    snapshot's problem.
    """

    name = "simulated"
    simulated = True

    def __init__(self, spec: SimSpec | str, state_file: Path | None = None) -> None:
        self.spec = parse_sim_spec(spec) if isinstance(spec, str) else spec
        self._facts = _facts(self.spec)
        self._set: dict[int, _GpuState] = {}
        self._path = state_file
        self._version: _FileVersion | None = None
        self._file = _FileState()
        self._file_problem: str | None = None
        self._made: Snapshot | None = None

    def set(
        self,
        index: int,
        *,
        temperature_c: int | None = None,
        memory_used_mib: int | None = None,
        utilisation_percent: int | None = None,
        processes: Sequence[GpuProcess] | None = None,
        lost: bool | None = None,
        sm_clock_mhz: int | None = None,
        throttle: Sequence[str] | None = None,
        ecc_uncorrected: int | None = None,
        remap_pending: bool | None = None,
        remap_failed: bool | None = None,
        xids: Sequence[int] | None = None,
        mps: bool | None = None,
        slice_of: int | None = None,
    ) -> None:
        """Set some values of one GPU, over the state file's; None leaves a value as it is."""
        if not 0 <= index < len(self._facts):
            raise ValueError(f"no GPU {index}: there are 0 to {len(self._facts) - 1}")
        new = _GpuState(
            temperature_c=temperature_c,
            memory_used_mib=memory_used_mib,
            utilisation_percent=utilisation_percent,
            processes=None
            if processes is None
            else [_ProcessState(p.pid, p.memory_mib, p.sm_percent) for p in processes],
            lost=lost,
            sm_clock_mhz=sm_clock_mhz,
            throttle=None if throttle is None else list(throttle),
            ecc_uncorrected=ecc_uncorrected,
            remap_pending=remap_pending,
            remap_failed=remap_failed,
            xids=None if xids is None else list(xids),
            mps=mps,
            slice_of=slice_of,
        )
        self._set[index] = new.over(self._set.get(index, _GpuState()))
        self._made = None

    def reset(self, index: int) -> None:
        """Forget what was set by method for this GPU."""
        self._set.pop(index, None)
        self._made = None

    def read(self) -> Snapshot:
        self._reload()
        if self._file.delay_ms > 0:
            time.sleep(self._file.delay_ms / 1000)
        return self._known()

    def at_once(self) -> Snapshot | None:
        self._reload()
        is_well = self._file.delay_ms == 0 and self._file.problem is None
        return self._known() if is_well and self._file_problem is None else None

    def _known(self) -> Snapshot:
        """Made anew only when something was set: every end of a job looks here."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> Snapshot:
        if self._file.problem is not None:
            problem = f"driver failed: {self._file.problem}"
            gpus = tuple(gpu.unmeasured(problem) for gpu in self._facts)
            return Snapshot(self.name, gpus, problem)
        return Snapshot(self.name, tuple(map(self._reading, self._facts)), self._file_problem)

    def close(self) -> None:
        """Nothing is held open."""

    def _reading(self, facts: GpuReading) -> GpuReading:
        from_file = self._file.gpus.get(facts.index, _GpuState()).over(self._file.all)
        return _apply(facts, self._set.get(facts.index, _GpuState()).over(from_file))

    def _reload(self) -> None:
        if self._path is None:
            return
        try:
            stat = self._path.stat()
            version = _FileVersion(stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if version == self._version:
                return
            self._file = self._decode(self._path.read_bytes())
            self._version, self._file_problem, self._made = version, None, None
        except FileNotFoundError:
            if self._version is not None or self._file_problem is not None:
                self._version, self._file, self._file_problem = None, _FileState(), None
                self._made = None
        except (OSError, ValueError) as error:
            self._file_problem = f"state file {self._path} not understood: {error}"
            self._made = None

    def _decode(self, text: bytes) -> _FileState:
        state = msgspec.json.decode(text, type=_FileState)
        unknown = [index for index in state.gpus if not 0 <= index < len(self._facts)]
        if unknown:
            raise ValueError(f"no GPU {unknown[0]}: there are 0 to {len(self._facts) - 1}")
        return state


def _facts(spec: SimSpec) -> tuple[GpuReading, ...]:
    islands = _islands([gpu.gpu_type for gpu in spec.gpus])
    return tuple(
        GpuReading(
            index=index,
            uuid=f"GPU-sim-{gpu.gpu_type.lower()}-{index:04d}",
            name=f"Simulated {gpu.gpu_type}",
            gpu_type=gpu.gpu_type,
            memory_mib=gpu.memory_mib,
            nvlink_group=islands[index],
            numa_node=index * 2 // len(spec.gpus),  # two sockets, half the GPUs on each
        )
        for index, gpu in enumerate(spec.gpus)
    )


def _islands(types: list[str]) -> list[int | None]:
    """NVLink joins up to eight GPUs of one type that stand together; one alone has no peer."""
    islands: list[list[int]] = []
    for index, gpu_type in enumerate(types):
        if not has_nvlink(gpu_type):
            continue
        last = islands[-1] if islands else []
        if (
            last
            and last[-1] == index - 1
            and types[last[-1]] == gpu_type
            and len(last) < _NVLINK_ISLAND
        ):
            last.append(index)
        else:
            islands.append([index])
    groups: list[int | None] = [None] * len(types)
    for number, island in enumerate(island for island in islands if len(island) > 1):
        for index in island:
            groups[index] = number
    return groups


def _apply(facts: GpuReading, state: _GpuState) -> GpuReading:
    xids = tuple(state.xids or ())
    facts = replace(facts, xids=xids, xid_count=len(xids), slice_of=state.slice_of)
    if state.lost:
        return facts.unmeasured("lost: simulated loss")
    processes = tuple(GpuProcess(p.pid, p.memory_mib, p.sm_percent) for p in state.processes or ())
    used_mib = state.memory_used_mib
    if used_mib is None:
        used_mib = sum(process.memory_mib or 0 for process in processes)
    temperature_c = state.temperature_c
    return replace(
        facts,
        memory_used_mib=used_mib,
        temperature_c=_IDLE_TEMPERATURE_C if temperature_c is None else temperature_c,
        utilisation_percent=state.utilisation_percent or 0,
        processes=processes,
        mps=bool(state.mps),
        sm_clock_mhz=state.sm_clock_mhz,
        throttle=tuple(state.throttle or ()),
        ecc_uncorrected=state.ecc_uncorrected or 0,
        remap_pending=bool(state.remap_pending),
        remap_failed=bool(state.remap_failed),
    )
