"""A control group for each runner: what is in it, and is not the runner, is of its attempt.

Every process that a job starts is born in its runner's group and stays there, whatever it does to
its session, its parents, its descriptors and its environment; a job that is not root cannot leave.
The runner enters once, so that jobs are started as before. It limits nothing.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from tgpu.devices.control_groups import FENCE, RUNNER, tracking_tree
from tgpu.engines.local.processes import CannotTell, start_time

_PROCS: Final = "cgroup.procs"
_GONE: Final = (FileNotFoundError, NotADirectoryError, ProcessLookupError)
_MOST_GROUPS: Final = 1000  # below one of ours: a job that is root may make as many as it likes


def enter(start: int) -> str:
    """Called by a runner that started at `start`: its group, or "" where there are none for us."""
    tree = tracking_tree()
    if isinstance(tree, str):
        return ""
    path = tree.path / f"{RUNNER}{os.getpid()}-{start}"
    try:
        path.mkdir()
        (path / _PROCS).write_text("0")
    except OSError:
        _remove(path)
        return ""
    return str(path)


def members(group: str) -> set[int]:
    """The processes in a group and in those below it; none where it is gone. Raises CannotTell."""
    if not group:
        return set()
    found: set[int] = set()
    level = [group]
    for _ in range(_MOST_GROUPS):
        if not level:
            break
        path = level.pop()
        try:
            with open(f"{path}/{_PROCS}", "rb", buffering=0) as listing:
                while piece := listing.read(1 << 16):
                    found.update(map(int, piece.split()))
            with os.scandir(path) as entries:
                level += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except _GONE:
            continue
        except OSError as error:
            raise CannotTell(f"the control group {path} cannot be looked at", error) from error
    return found


def sweep() -> None:
    """Take away the groups of runners that are gone."""
    tree = tracking_tree()
    if isinstance(tree, str):
        return
    for left in tree.path.glob(f"{RUNNER}*"):
        number = left.name.removeprefix(RUNNER).partition("-")[0]
        with contextlib.suppress(CannotTell):
            if number.isdigit() and not start_time(int(number)):
                _remove(left)


def _remove(path: Path) -> None:
    # One with somebody in it stays: it tells the next supervisor whose they are.
    with contextlib.suppress(OSError):
        for fence in path.glob(f"{FENCE}*"):
            fence.rmdir()
        path.rmdir()
