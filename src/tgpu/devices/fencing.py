"""Whether the kernel can isolate processes from devices, and by which of two mechanisms."""

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tgpu.devices.bpf import load_program
from tgpu.devices.control_groups import GroupTree, device_tree, tracking_tree
from tgpu.devices.device_program import device_program


class FenceKind(StrEnum):
    PROGRAM = "control groups version 2, eBPF"
    LIST = "control groups version 1"


@dataclass(frozen=True, slots=True)
class FenceTree:
    kind: FenceKind
    tree: GroupTree


_NOT_ROOT: Final = "only root can isolate GPUs"


def fence_tree() -> FenceTree | str:
    """For this process and what it starts; a string says why there is no way."""
    if os.geteuid() != 0:
        return _NOT_ROOT
    tree = tracking_tree()
    if isinstance(tree, GroupTree) and tree.version == 2:
        problem = _program_problem()
        if problem is None:
            return FenceTree(FenceKind.PROGRAM, tree)
    else:
        problem = "no control group of version 2 is writable for us"
    lists = device_tree()
    if isinstance(lists, GroupTree):
        return FenceTree(FenceKind.LIST, lists)
    return f"{problem}, and {lists}"


def _program_problem() -> str | None:
    """Found out by loading one that refuses nothing."""
    try:
        os.close(load_program(device_program((), ())))
    except OSError as error:
        return f"the kernel takes no eBPF program of ours ({error.strerror})"
    return None
