"""Finds the GPUs of this machine: which provider works here, and how large the node is."""

import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tgpu.devices.api import GPUProvider, NoDriver
from tgpu.devices.host import NodeSize, this_machine
from tgpu.devices.nvidia_smi import NvidiaSmiProvider
from tgpu.devices.nvml import NvmlProvider
from tgpu.devices.sim_spec import SimSpec, parse_sim_spec
from tgpu.devices.simulated import SimulatedProvider

_SIMULATED_GPUS = 4  # where there are none, and nobody said how many
_MOST_SIMULATED = 1024
SIM_STATE_FILE = "simulated-gpus.json"  # in the data directory: what simulated GPUs report
# Without persistence mode the driver wakes each GPU for 1 to 3 s, one after the other: 16 of them
# stay below this.
_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Detected:
    """The provider to use, and what to tell the user about it."""

    provider: GPUProvider
    sentence: str  # what was found, and what was tried before: "no NVIDIA driver found (…): …"


def detect(
    spec: str,
    *,
    sim_state_file: Path | None = None,
    expected: int | None = None,
    start_timeout_seconds: float = _START_SECONDS,
) -> Detected:
    """The provider that `spec` names: "auto", "nvml", "nvidia-smi" or "sim:…".

    Raises ValueError for a spec that is none of these, and NoDriver when a named provider cannot
    work here; "auto" always finds something: where there is no driver, as many simulated GPUs as
    are `expected`. May take as long as the driver needs to wake up.
    """
    match spec.strip():
        case "auto":
            return _detect_any(sim_state_file, expected, start_timeout_seconds)
        case "nvml":
            return _start_nvml(start_timeout_seconds)
        case "nvidia-smi":
            return _found(NvidiaSmiProvider())
        case text if text.startswith("sim:"):
            simulated = SimulatedProvider(parse_sim_spec(text), sim_state_file)
            return Detected(simulated, f"using {_simulated(simulated.spec)}, as asked for")
    raise ValueError(f"GPU spec {spec!r} must be auto, nvml, nvidia-smi or like sim:4xA100")


def node_size(provider: GPUProvider) -> NodeSize:
    """A simulated node has what its spec says, a real one what this process may use."""
    if isinstance(provider, SimulatedProvider):
        return NodeSize(provider.spec.cores, provider.spec.memory_mib)
    return this_machine()


def _detect_any(
    sim_state_file: Path | None, expected: int | None, start_timeout_seconds: float
) -> Detected:
    try:
        return _start_nvml(start_timeout_seconds)
    except NoDriver as error:
        nvml_says = str(error)
    try:
        return _found(NvidiaSmiProvider(), f" (NVML: {nvml_says})")
    except NoDriver as error:
        smi_says = str(error)
    count = min(expected or _SIMULATED_GPUS, _MOST_SIMULATED)
    simulated = SimulatedProvider(f"sim:{count}xA100", sim_state_file)
    return Detected(
        simulated,
        f"no NVIDIA driver found (NVML: {nvml_says}; nvidia-smi: {smi_says}): "
        f"using {_simulated(simulated.spec)}",
    )


def _start_nvml(timeout_seconds: float) -> Detected:
    """In a thread that can be left behind: a sick driver hangs in its first call."""
    outcome: list[Detected | Exception] = []

    def run() -> None:
        try:
            outcome.append(_found(NvmlProvider()))
        except Exception as error:  # raised again below, in the caller's thread
            outcome.append(error)

    thread = threading.Thread(target=run, name="device-start", daemon=True)
    thread.start()
    thread.join(timeout_seconds)
    if not outcome:
        raise NoDriver(f"the driver did not answer in {timeout_seconds:g} s")
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _found(provider: GPUProvider, tried: str = "") -> Detected:
    gpus = provider.read().gpus
    types = Counter(gpu.gpu_type for gpu in gpus)
    counted = ", ".join(f"{count} {gpu_type}" for gpu_type, count in types.items())
    ill = sum(gpu.problem is not None for gpu in gpus)
    but = f", {ill} of them unusable" if ill else ""
    return Detected(provider, f"found {counted} through {provider.name}{but}{tried}")


def _simulated(spec: SimSpec) -> str:
    counts = Counter(gpu.gpu_type for gpu in spec.gpus)
    return ", ".join(f"{count} simulated {gpu_type}" for gpu_type, count in counts.items())
