"""What a simulated node has, from a spec such as `sim:4xA100,2xH100:40G;cores=16;mem=64G`. Pure."""

import re
from dataclasses import dataclass

_GIB_IN_MIB = 1024
_MAX_GPUS = 1024  # the most that NVML itself would list; more is a slip of the keyboard
_DEFAULT_CORES = 256
_DEFAULT_NODE_MIB = 2 * 1024 * _GIB_IN_MIB
_DEFAULT_GPU_MIB = 24 * _GIB_IN_MIB
_FORM = "sim:4xA100, sim:4xA100,2xH100, sim:2xA100:40G or sim:4xA100;cores=16;mem=64G"

# Memory in GiB of the usual model of each type, as its data sheet says.
_MEMORY_GIB = {
    "P100": 16,
    "P40": 24,
    "P4": 8,
    "V100": 32,
    "T4": 16,
    "A2": 16,
    "A10": 24,
    "A10G": 24,
    "A16": 16,
    "A30": 24,
    "A40": 48,
    "A100": 80,
    "A800": 80,
    "A4000": 16,
    "A5000": 24,
    "A6000": 48,
    "RTX6000Ada": 48,
    "L4": 24,
    "L20": 48,
    "L40": 48,
    "L40S": 48,
    "H20": 96,
    "H100": 80,
    "H800": 80,
    "H200": 141,
    "GH200": 96,
    "B100": 192,
    "B200": 180,
    "B300": 288,
    "GB200": 186,
    "RTX2080Ti": 11,
    "RTX3080": 10,
    "RTX3090": 24,
    "RTX4080": 16,
    "RTX4090": 24,
    "RTX5080": 16,
    "RTX5090": 32,
}
_NVLINK_TYPES = frozenset(
    {"P100", "V100", "A100", "A800", "H20", "H100", "H800", "H200", "GH200"}
    | {"B100", "B200", "B300", "GB200"}
)
_CANONICAL = {gpu_type.lower(): gpu_type for gpu_type in _MEMORY_GIB}


@dataclass(frozen=True, slots=True)
class SimGpu:
    """One simulated GPU."""

    gpu_type: str
    memory_mib: int


@dataclass(frozen=True, slots=True)
class SimSpec:
    """A simulated node."""

    gpus: tuple[SimGpu, ...]
    cores: int = _DEFAULT_CORES
    memory_mib: int = _DEFAULT_NODE_MIB


def parse_sim_spec(text: str) -> SimSpec:
    """Raises ValueError, which names the value and what would be right."""
    scheme, _, rest = text.strip().partition(":")
    if scheme != "sim" or not rest:
        raise ValueError(f"GPU spec {text!r} is not of the form {_FORM}")
    gpu_part, *options = rest.split(";")
    gpus = tuple(gpu for item in gpu_part.split(",") for gpu in _gpus(item.strip(), text))
    if len(gpus) > _MAX_GPUS:
        raise _too_many(len(gpus), text)
    return _with_options(SimSpec(gpus), options, text)


def has_nvlink(gpu_type: str) -> bool:
    """Whether servers with this type join its GPUs over NVLink."""
    return gpu_type in _NVLINK_TYPES


def _gpus(item: str, text: str) -> list[SimGpu]:
    match = re.fullmatch(r"([+-]?\d+)x([A-Za-z][A-Za-z0-9_.-]*)(?::(.*))?", item, re.ASCII)
    if match is None:
        raise ValueError(
            f"{item!r} in GPU spec {text!r} is not <count>x<type>[:<memory>]: write {_FORM}"
        )
    # Compared as text first: a count of a million digits must not become an integer.
    count = int(match[1]) if len(match[1]) <= 9 else _MAX_GPUS + 1
    if count <= 0:
        raise ValueError(f"GPU count {match[1]} in GPU spec {text!r} must be 1 or more")
    if count > _MAX_GPUS:
        raise _too_many(count, text)
    gpu_type = _CANONICAL.get(match[2].lower(), match[2])
    known_gib = _MEMORY_GIB.get(gpu_type)
    memory_mib = _DEFAULT_GPU_MIB if known_gib is None else known_gib * _GIB_IN_MIB
    if match[3] is not None:
        memory_mib = _size_mib(match[3], f"memory of {match[2]}", text)
    return [SimGpu(gpu_type, memory_mib)] * count


def _with_options(spec: SimSpec, options: list[str], text: str) -> SimSpec:
    cores, memory_mib = spec.cores, spec.memory_mib
    for option in options:
        key, _, value = option.strip().partition("=")
        if key == "cores":
            cores = _cores(value, text)
        elif key == "mem":
            memory_mib = _size_mib(value, "mem", text)
        else:
            raise ValueError(
                f"{option!r} in GPU spec {text!r} is not known; write cores=16 or mem=64G"
            )
    return SimSpec(spec.gpus, cores, memory_mib)


def _cores(value: str, text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", value, re.ASCII):
        raise ValueError(f"cores={value!r} in GPU spec {text!r} must be a whole number, 1 or more")
    return int(value)


def _size_mib(value: str, what: str, text: str) -> int:
    match = re.fullmatch(r"([1-9]\d{0,8})([MGT])(?:i?B)?", value.strip(), re.ASCII)
    if match is None:
        raise ValueError(
            f"{what} {value!r} in GPU spec {text!r} must be a whole number with a unit, "
            "such as 512M, 40G or 2T"
        )
    return int(match[1]) * {"M": 1, "G": _GIB_IN_MIB, "T": _GIB_IN_MIB**2}[match[2]]


def _too_many(count: int, text: str) -> ValueError:
    at_least = "more than 1024" if count == _MAX_GPUS + 1 else str(count)
    return ValueError(
        f"GPU spec {text!r} asks for {at_least} GPUs; at most {_MAX_GPUS} are possible"
    )
