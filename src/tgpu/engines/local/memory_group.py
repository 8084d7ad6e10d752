"""A control group for one attempt: the memory of all its processes together has a limit.

What the kernel killed for it is written down beside the attempt's logs, for whoever asks why.
"""

import contextlib
import errno
import os
import time
from pathlib import Path
from typing import Final

from tgpu.devices.control_groups import JOB, OWN, GroupTree, memory_tree
from tgpu.engines.attempt_files import OUT_OF_MEMORY, new_file
from tgpu.engines.local.processes import CannotTell, start_time

_PROCS: Final = "cgroup.procs"
_REMOVE_SECONDS: Final = 1.0  # the kernel takes a moment to see that the last process is gone


class MemoryGroup:
    """Made by a runner, entered by its child before the command, removed when all is over."""

    def __init__(self, tree: GroupTree, name: str, limit_bytes: int) -> None:
        """Raises OSError where the kernel does not let us after all."""
        self._tree = tree
        self._limit = limit_bytes
        _prepare(tree)
        # The runner's number: several services may share a tree, and know other jobs by the name.
        self._path = tree.path / f"{JOB}{os.getpid()}-{name}"
        self._path.mkdir()
        try:
            self._write(tree.limit_file, limit_bytes)
        except OSError:
            self._path.rmdir()
            raise
        # Swapping instead would make everybody slow; the whole job ends, not a worker of it.
        further = {"memory.swap.max": 0, "memory.oom.group": 1}
        if tree.version == 1:
            further = {"memory.memsw.limit_in_bytes": limit_bytes}
        for file, value in further.items():
            if (self._path / file).exists():  # a kernel may be without
                with contextlib.suppress(OSError):
                    self._write(file, value)

    @property
    def procs(self) -> str:
        """Whoever writes 0 here is in the group, with all that it starts."""
        return str(self._path / _PROCS)

    def close(self, directory: int) -> None:
        """All of it is over. `directory` is the attempt's."""
        with contextlib.suppress(OSError):
            if self._kills():
                self._write_down(directory)
        until = time.monotonic() + _REMOVE_SECONDS
        while not _is_removed(self._path) and time.monotonic() < until:
            time.sleep(0.01)

    def _kills(self) -> int:
        for line in (self._path / self._tree.events_file).read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
        return 0

    def _write_down(self, directory: int) -> None:
        with os.fdopen(new_file(OUT_OF_MEMORY, os.O_WRONLY, directory), "w") as file:
            file.write(f"{self._limit}\n")

    def _write(self, file: str, value: int) -> None:
        (self._path / file).write_text(str(value))


def memory_group(name: str, limit_bytes: int) -> MemoryGroup | None:
    """None where the kernel lets us limit single processes only."""
    tree = memory_tree()
    if isinstance(tree, str):
        return None
    try:
        return MemoryGroup(tree, name, limit_bytes)
    except OSError:
        return None


def enter(procs: str) -> None:
    """This process and all that it starts."""
    descriptor = os.open(procs, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"0")
    finally:
        os.close(descriptor)


def _prepare(tree: GroupTree) -> None:
    """Take away what runners that were killed left; let groups below the tree limit memory."""
    for left in tree.path.glob(f"{JOB}*"):
        pid = left.name.removeprefix(JOB).partition("-")[0]
        if pid.isdigit() and _is_gone(int(pid)):
            _is_removed(left)
    if tree.version == 1 or "memory" in (tree.path / "cgroup.subtree_control").read_text().split():
        return
    try:
        _enable(tree.path)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        # Groups with processes of their own may have none below that limit anything.
        _move_away(tree.path)
        _enable(tree.path)


def _is_gone(pid: int) -> bool:
    try:
        return not start_time(pid)
    except CannotTell:
        return False  # the next runner looks again


def _enable(path: Path) -> None:
    (path / "cgroup.subtree_control").write_text("+memory")


def _move_away(path: Path) -> None:
    own = path / OWN
    own.mkdir(exist_ok=True)
    for pid in (path / _PROCS).read_text().split():
        with contextlib.suppress(OSError):  # it has just ended
            (own / _PROCS).write_text(pid)


def _is_removed(path: Path) -> bool:
    """Tries to; false while somebody is in it."""
    try:
        path.rmdir()
    except OSError as error:
        return error.errno != errno.EBUSY
    return True
