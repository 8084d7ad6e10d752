"""The machine around the GPUs: its cores and memory, and which of its starts this is."""

from dataclasses import dataclass
from pathlib import Path

import psutil

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class NodeSize:
    """What a node has besides GPUs."""

    cores: int
    memory_mib: int


def this_machine() -> NodeSize:
    # The affinity, not the machine's count: a container or taskset may grant fewer cores.
    cores = len(psutil.Process().cpu_affinity() or ()) or psutil.cpu_count() or 1
    return NodeSize(cores, psutil.virtual_memory().total // _MIB)


def boot_id(file: Path = Path("/proc/sys/kernel/random/boot_id")) -> str:
    """Another one whenever the machine was started."""
    return file.read_text().strip()
