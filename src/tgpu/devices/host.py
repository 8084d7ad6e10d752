"""The machine around the GPUs: its cores and memory."""

from dataclasses import dataclass

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
