"""Limits of the kernel on an attempt, set before its command begins.

Memory is limited for all its processes together where there are control groups for that, else for
each of them, like the rest.
"""

import resource
from collections.abc import Mapping
from typing import Final

from tgpu.engines.local.memory_group import enter

# Memory is RLIMIT_DATA, what a process can write to, and not RLIMIT_AS, all that it has addresses
# for: CUDA reserves addresses for the memory of every GPU and of the host, and under a limit of
# the second kind does not start at all.
_KINDS: Final = {
    "memory_bytes": resource.RLIMIT_DATA,
    "cpu_seconds": resource.RLIMIT_CPU,
    "open_files": resource.RLIMIT_NOFILE,
}


def apply(limits: Mapping[str, int | None], group: str | None = None) -> None:
    """On this process and all it starts, for good. A stricter limit that holds stays.

    `group` is the door of the control group that limits its memory, if there is one.
    """
    if group is not None:
        enter(group)
    for name, kind in _KINDS.items():
        wanted = limits.get(name)
        if wanted is None or (group is not None and name == "memory_bytes"):
            continue
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        resource.setrlimit(kind, (wanted, wanted))
