"""GPU isolation of one attempt: its processes can open only their own devices.

The kernel keeps it for as long as anything is in the attempt's control group, whoever of us is
still there. Which group that is: of version 2, the one that limits its memory, or one below its
runner's; of version 1, one of the controller of devices.
"""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tgpu.devices.bpf import attach_program, load_program
from tgpu.devices.control_groups import FENCE
from tgpu.devices.device_lists import shut_devices
from tgpu.devices.device_program import Device, DeviceRange, device_program
from tgpu.devices.fencing import FenceKind, FenceTree, fence_tree
from tgpu.engines.local.processes import CannotTell, start_time

_PROCS: Final = "cgroup.procs"
_REMOVE_SECONDS: Final = 1.0  # the kernel takes a moment to see that the last process is gone


class CannotFenceDevices(Exception):
    """The sentence to report."""


class DeviceFence:
    """Made by a runner, entered by its child before the command, removed when all is over."""

    def __init__(self, path: Path, kind: FenceKind, *, is_ours: bool) -> None:
        self._path = path
        self._is_ours = is_ours  # else the group is there for something else as well
        self.kind = kind

    @property
    def procs(self) -> str | None:
        """Whoever writes 0 here is inside; None where it is another's door already."""
        return str(self._path / _PROCS) if self._is_ours else None

    def close(self) -> None:
        until = time.monotonic() + _REMOVE_SECONDS
        while self._is_ours and not _is_removed(self._path) and time.monotonic() < until:
            time.sleep(0.01)


def make_fence(
    wanted: dict[str, Any], name: str, runner_group: str, memory_group: str
) -> DeviceFence:
    """`wanted` is of the launch; the groups are the attempt's others, "" for none.

    Raises CannotFence.
    """
    found = fence_tree()
    if isinstance(found, str):
        raise CannotFenceDevices(found)
    opened = [Device(*each) for each in wanted["opened"]]
    shut = [DeviceRange(*each) for each in wanted["shut"]]
    try:
        if found.kind is FenceKind.LIST:
            return _by_list(found, name, opened, shut)
        return _by_program(found, name, (runner_group, memory_group), opened, shut)
    except OSError as error:
        raise CannotFenceDevices(f"{found.kind}: {error.strerror or error}") from error


def _by_list(
    found: FenceTree, name: str, opened: Sequence[Device], shut: Sequence[DeviceRange]
) -> DeviceFence:
    _sweep(found.tree.path)
    path = found.tree.path / f"{FENCE}{os.getpid()}-{name}"
    path.mkdir()
    try:
        shut_devices(path, opened, shut)
    except OSError:
        path.rmdir()
        raise
    return DeviceFence(path, found.kind, is_ours=True)


def _by_program(
    found: FenceTree,
    name: str,
    groups: tuple[str, str],
    opened: Sequence[Device],
    shut: Sequence[DeviceRange],
) -> DeviceFence:
    runner_group, memory_group = groups
    if memory_group.startswith(f"{found.tree.path}/"):  # else it is of version 1, in another tree
        path, is_ours = Path(memory_group), False
    elif runner_group.startswith(f"{found.tree.path}/"):
        path, is_ours = Path(runner_group) / f"{FENCE}{os.getpid()}-{name}", True
        path.mkdir()
    else:
        raise CannotFenceDevices("its runner has no control group of its own")
    try:
        _attach(path, device_program(opened, shut))
    except OSError:
        if is_ours:
            path.rmdir()
        raise
    return DeviceFence(path, found.kind, is_ours=is_ours)


def _attach(path: Path, program: bytes) -> None:
    loaded = load_program(program)
    try:
        group = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            attach_program(loaded, group)
        finally:
            os.close(group)
    finally:
        os.close(loaded)  # the group has it now


def _sweep(tree: Path) -> None:
    """Take away what runners that were killed left; one with somebody in it stays."""
    for left in tree.glob(f"{FENCE}*"):
        pid = left.name.removeprefix(FENCE).partition("-")[0]
        with contextlib.suppress(CannotTell):
            if pid.isdigit() and not start_time(int(pid)):
                _is_removed(left)


def _is_removed(path: Path) -> bool:
    """Tries to; false while somebody is in it."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
