"""GPUs through the `nvidia-smi` program, for machines where NVML cannot be loaded.

It tells less than NVML (no NVLink groups, no Xids, no MIG slices) and costs three processes a read.
"""

import csv
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tgpu.devices.api import GpuProcess, GpuReading, NoDriver, Snapshot
from tgpu.devices.gpu_nodes import minor_of
from tgpu.devices.gpu_type import UNKNOWN_TYPE, short_type
from tgpu.devices.host import this_machine
from tgpu.devices.numa import numa_node_of
from tgpu.devices.throttle import throttle_reasons
from tgpu.text.system_words import system_words

_GPU_FIELDS = (
    "index",
    "uuid",
    "name",
    "memory.total",
    "memory.used",
    "temperature.gpu",
    "utilization.gpu",
    "pci.bus_id",
)
# Asked for apart: a program that is too old for one of these fields refuses the whole question.
_HEALTH_FIELDS = (
    "uuid",
    "clocks.sm",
    "clocks_throttle_reasons.active",
    "ecc.errors.uncorrected.volatile.total",
    "remapped_rows.pending",
    "remapped_rows.failure",
)
_PROCESS_FIELDS = ("gpu_uuid", "pid", "used_memory")
_FORMAT = "--format=csv,noheader,nounits"
_NO_UUID = "GPU-unknown-"  # stands in, with the index, for a UUID that was never told
_REAP_SECONDS = 1.0  # after SIGKILL; a process stuck inside the driver ignores even that


@dataclass(frozen=True, slots=True)
class SmiHealth:
    """What a program that is new enough tells besides; None: not told."""

    sm_clock_mhz: int | None
    throttle: tuple[str, ...]
    ecc_uncorrected: int | None
    remap_pending: bool | None
    remap_failed: bool | None


class NvidiaSmiProvider:
    """Runs `nvidia-smi` for each read, never two at a time."""

    name = "nvidia-smi"
    simulated = False

    def __init__(
        self, command: Sequence[str] = ("nvidia-smi",), timeout_seconds: float = 10.0
    ) -> None:
        """Raises NoDriver where the program is missing, fails, hangs or lists no GPU."""
        self._command = tuple(command)
        self._timeout_seconds = timeout_seconds
        self._tells_health = True  # until the program refuses the question
        self._stuck: subprocess.Popen[str] | None = None
        self._known: dict[str, GpuReading] = {}  # by UUID: the program renumbers when one is lost
        try:
            self._settle(self._query())
        except _QueryFailed as error:
            raise NoDriver(str(error)) from error

    def read(self) -> Snapshot:
        try:
            answered = self._settle(self._query())
        except _QueryFailed as error:
            problem = f"driver failed: {error}"
            return Snapshot(self.name, self._all_known({}, problem), problem)
        return Snapshot(self.name, self._all_known(answered, "lost: nvidia-smi no longer lists it"))

    def close(self) -> None:
        """Nothing stays open between reads."""

    def _all_known(self, answered: dict[str, GpuReading], otherwise: str) -> tuple[GpuReading, ...]:
        gpus = [answered.get(uuid, gpu.unmeasured(otherwise)) for uuid, gpu in self._known.items()]
        return tuple(sorted(gpus, key=lambda gpu: gpu.index))

    def _settle(self, listed: Iterable[GpuReading]) -> dict[str, GpuReading]:
        """Join what was listed with what is known of the same GPU, and remember it."""
        answered = {}
        for gpu in listed:
            settled = self._settled(gpu)
            answered[settled.uuid] = self._known[settled.uuid] = settled
        return answered

    def _settled(self, gpu: GpuReading) -> GpuReading:
        known = self._known.get(gpu.uuid)
        if known is not None:
            # An index once given stays with its GPU; a lost one may not even tell its name.
            return known.unmeasured(gpu.problem) if gpu.problem else replace(gpu, index=known.index)
        at_index = next((k for k in self._known.values() if k.index == gpu.index), None)
        if at_index is None:
            return gpu
        if gpu.uuid.startswith(_NO_UUID):  # lost, and it does not tell its UUID
            return at_index.unmeasured(gpu.problem)
        if at_index.uuid.startswith(_NO_UUID):  # was lost when first seen, and is back
            del self._known[at_index.uuid]
            return gpu
        return replace(gpu, index=1 + max(k.index for k in self._known.values()))

    def _query(self) -> tuple[GpuReading, ...]:
        code, text = self._run(f"--query-gpu={','.join(_GPU_FIELDS)}", _FORMAT)
        gpus = parse_gpus(text, numa_node_of, minor_of)
        # With one GPU lost it may exit non-zero and yet list the others: what it says counts.
        if not gpus:
            said = " ".join(text.split()) or "it said nothing"
            raise _QueryFailed(f"nvidia-smi lists no GPU (exit code {code}: {said[:300]})")
        _, text = self._run(f"--query-compute-apps={','.join(_PROCESS_FIELDS)}", _FORMAT)
        processes = parse_processes(text)
        health = self._health()
        return tuple(
            _completed(_with_health(gpu, health.get(gpu.uuid)), processes.get(gpu.uuid, ()))
            for gpu in gpus
        )

    def _health(self) -> dict[str, SmiHealth]:
        if not self._tells_health:
            return {}
        code, text = self._run(f"--query-gpu={','.join(_HEALTH_FIELDS)}", _FORMAT)
        found = parse_health(text)
        self._tells_health = bool(found) or code == 0
        return found

    def _run(self, *args: str) -> tuple[int, str]:
        self._check_nothing_is_stuck()
        try:
            process = subprocess.Popen(
                [*self._command, *args],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise _QueryFailed(f"cannot run {self._command[0]}: {system_words(error)}") from error
        try:
            text, _ = process.communicate(timeout=self._timeout_seconds)
        except subprocess.TimeoutExpired as error:
            self._abandon(process)
            raise _QueryFailed(
                f"no answer from nvidia-smi in {self._timeout_seconds:g} s"
            ) from error
        return process.returncode, text

    def _abandon(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        if process.stdout is not None:
            process.stdout.close()
        try:
            # Bounded, unlike subprocess.run(timeout=…), which would wait for a process that
            # hangs in the kernel until the kernel lets it go.
            process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            self._stuck = process

    def _check_nothing_is_stuck(self) -> None:
        if self._stuck is None:
            return
        if self._stuck.poll() is None:
            raise _QueryFailed(f"nvidia-smi (process {self._stuck.pid}) hangs in the driver")
        self._stuck = None


class _QueryFailed(Exception):
    """One sentence for `tgpu doctor`."""


def parse_gpus(
    text: str,
    numa_node_of_bus: Callable[[str], int | None] = lambda bus_id: None,
    minor_of_bus: Callable[[str], int | None] = lambda bus_id: None,
) -> tuple[GpuReading, ...]:
    """The GPUs in the answer to `--query-gpu`; lines that are no GPU are passed over."""
    rows = [row for row in _rows(text) if len(row) == len(_GPU_FIELDS) and row[0].isdigit()]
    return tuple(_gpu(row, numa_node_of_bus, minor_of_bus) for row in rows)


def parse_processes(text: str) -> dict[str, tuple[GpuProcess, ...]]:
    """The processes per GPU UUID in the answer to `--query-compute-apps`."""
    found: dict[str, tuple[GpuProcess, ...]] = {}
    for row in _rows(text):
        if len(row) != len(_PROCESS_FIELDS) or not row[1].isdigit():
            continue
        uuid, pid, used_mib = row
        found[uuid] = (*found.get(uuid, ()), GpuProcess(int(pid), _number(used_mib)))
    return found


def parse_health(text: str) -> dict[str, SmiHealth]:
    """Errors and speed per GPU UUID in the answer to the second `--query-gpu`."""
    rows = [row for row in _rows(text) if len(row) == len(_HEALTH_FIELDS)]
    return {
        uuid: SmiHealth(
            sm_clock_mhz=_number(clock),
            throttle=throttle_reasons(_bits(reasons)),
            ecc_uncorrected=_number(ecc),
            remap_pending=_truth(pending),
            remap_failed=_truth(failed),
        )
        for uuid, clock, reasons, ecc, pending, failed in rows
    }


def _with_health(gpu: GpuReading, health: SmiHealth | None) -> GpuReading:
    if health is None or gpu.problem is not None:
        return gpu
    return replace(
        gpu,
        sm_clock_mhz=health.sm_clock_mhz,
        throttle=health.throttle,
        ecc_uncorrected=health.ecc_uncorrected,
        remap_pending=health.remap_pending,
        remap_failed=health.remap_failed,
    )


def _completed(gpu: GpuReading, processes: tuple[GpuProcess, ...]) -> GpuReading:
    if gpu.problem is not None:
        return gpu
    # No memory of its own (GB10, Jetson): it shares the machine's.
    memory_mib = gpu.memory_mib or this_machine().memory_mib
    return replace(gpu, memory_mib=memory_mib, processes=processes)


def _rows(text: str) -> list[list[str]]:
    lines = csv.reader(text.splitlines(), skipinitialspace=True, quoting=csv.QUOTE_NONE)
    return [[field.strip() for field in row] for row in lines]


def _gpu(
    row: list[str],
    numa_node_of_bus: Callable[[str], int | None],
    minor_of_bus: Callable[[str], int | None],
) -> GpuReading:
    index, uuid, name, total, used, temperature, utilisation, bus_id = row
    problem = next((f"lost: {field.strip('[]')}" for field in row if _is_failure(field)), None)
    name = "unknown GPU" if _is_missing(name) else name
    gpu = GpuReading(
        index=int(index),
        uuid=f"{_NO_UUID}{index}" if _is_missing(uuid) else uuid,
        name=name,
        gpu_type=UNKNOWN_TYPE if name == "unknown GPU" else short_type(name),
        memory_mib=_number(total) or 0,  # 0: not told
        memory_used_mib=_number(used),
        temperature_c=_number(temperature),
        utilisation_percent=_number(utilisation),
        numa_node=None if _is_missing(bus_id) else numa_node_of_bus(bus_id),
        device_minor=None if _is_missing(bus_id) else minor_of_bus(bus_id),
    )
    return gpu if problem is None else gpu.unmeasured(problem)


def _is_missing(field: str) -> bool:
    return field.startswith("[") or field in ("", "N/A")


def _is_failure(field: str) -> bool:
    """ "[N/A]" and its like are a lack of the model; these are a GPU in trouble."""
    words = field.lower()
    return field.startswith("[") and any(w in words for w in ("lost", "error", "reset", "restart"))


def _number(field: str) -> int | None:
    try:
        return int(float(field))
    except (ValueError, OverflowError):
        return None


def _bits(field: str) -> int:
    """ "0x0000000000000004"; 0 where it is not told."""
    try:
        return max(0, int(field, 16))
    except ValueError:
        return 0


def _truth(field: str) -> bool | None:
    """Drivers write these flags as words or as numbers."""
    return {"yes": True, "no": False, "1": True, "0": False}.get(field.lower())
