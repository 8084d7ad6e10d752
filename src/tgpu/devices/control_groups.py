"""Control groups: where we may group a job's processes and limit their memory.

That is a part of the tree of control groups. Only looks. Version 2 wants a part that was delegated
to us (`Delegate=` of systemd): in any other, systemd or the user's desktop moves processes about.
In version 1, permission is all it takes.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
OWN: Final = "tgpu-own"  # the group our own processes move to: above jobs' groups may be none
RUNNER: Final = "tgpu-runner-"  # groups of runners begin with this: see `runner_group.py`
JOB: Final = "tgpu-job-"  # groups of attempts whose memory is limited: `memory_group.py`
FENCE: Final = "tgpu-fence-"  # groups of attempts that are kept from devices: `device_fence.py`
_DELEGATED: Final = ("user.delegate", "trusted.delegate")  # attributes that systemd sets
_MEMORY: Final = "memory"
_DEVICES: Final = "devices"
_TRACKING: Final = (
    "freezer",
    "pids",
    _MEMORY,
)  # of version 1: where a group does nothing by itself


@dataclass(frozen=True, slots=True)
class GroupTree:
    path: Path  # below it we may make groups
    version: int  # 1 or 2

    @property
    def limit_file(self) -> str:
        return "memory.max" if self.version == 2 else "memory.limit_in_bytes"

    @property
    def events_file(self) -> str:
        """Has a line `oom_kill N`."""
        return "memory.events" if self.version == 2 else "memory.oom_control"


class _Mount(NamedTuple):
    root: str
    point: Path
    kind: str
    options: str


def memory_tree(pid: int | None = None, proc: Path = PROC) -> GroupTree | str:
    """For a process, by default this one; a string says why there is none."""
    try:
        mounts, groups = _read(proc, pid)
    except OSError as error:
        return f"control groups cannot be read: {error.strerror}"
    for mount in mounts:
        if mount.kind == "cgroup" and _MEMORY in mount.options.split(","):
            path = _above(_where(mount, _group(groups, _MEMORY)))
            if os.access(path, os.W_OK):
                return GroupTree(path, 1)
            return f"{path} is not writable for us"
    unified = next((mount for mount in mounts if mount.kind == "cgroup2"), None)
    if unified is None:
        return "there are no control groups of version 2"
    return _second(unified, _where(unified, _group(groups, "")))


def tracking_tree(pid: int | None = None, proc: Path = PROC) -> GroupTree | str:
    """Where processes can be kept together, with no limit; a string says why nowhere."""
    try:
        mounts, groups = _read(proc, pid)
    except OSError as error:
        return f"control groups cannot be read: {error.strerror}"
    unified = next((mount for mount in mounts if mount.kind == "cgroup2"), None)
    if unified is not None:
        path = _above(_where(unified, _group(groups, "")))
        if _is_ours(path) and (path == unified.point or _is_delegated(path)):
            return GroupTree(path, 2)
    for controller in _TRACKING:
        for mount in mounts:
            if mount.kind == "cgroup" and controller in mount.options.split(","):
                path = _above(_where(mount, _group(groups, controller)))
                if os.access(path, os.W_OK):
                    return GroupTree(path, 1)
    return "no control group is writable for us"


def device_tree(pid: int | None = None, proc: Path = PROC) -> GroupTree | str:
    """Where version 1 can shut devices to processes; a string says why nowhere."""
    try:
        mounts, groups = _read(proc, pid)
    except OSError as error:
        return f"control groups cannot be read: {error.strerror}"
    for mount in mounts:
        if mount.kind == "cgroup" and _DEVICES in mount.options.split(","):
            path = _where(mount, _group(groups, _DEVICES))
            if os.access(path, os.W_OK):
                return GroupTree(path, 1)
            return f"{path} is not writable for us"
    return "there is no devices controller of version 1"


def fence_doors(pid: int, proc: Path = PROC) -> list[Path]:
    """Of the groups that keep a process from devices: whoever writes 0 there is in it as well."""
    try:
        mounts, groups = _read(proc, pid)
    except OSError:
        return []
    found = []
    for mount in mounts:
        if mount.kind == "cgroup2":
            path = _where(mount, _group(groups, ""))
        elif mount.kind == "cgroup" and _DEVICES in mount.options.split(","):
            path = _where(mount, _group(groups, _DEVICES))
        else:
            continue
        if path.name.startswith((FENCE, JOB)):
            found.append(path / "cgroup.procs")
    return found


def _read(proc: Path, pid: int | None) -> tuple[list[_Mount], str]:
    """What is mounted where a process is, and the groups it is in. Raises OSError."""
    folder = proc / ("self" if pid is None else str(pid))
    return list(_mounts((folder / "mountinfo").read_text())), (folder / "cgroup").read_text()


def _above(path: Path) -> Path:
    """Without the groups that we made ourselves."""
    while path.name == OWN or path.name.startswith((RUNNER, FENCE)):
        path = path.parent
    return path


def _is_ours(path: Path) -> bool:
    return all(os.access(path / name, os.W_OK) for name in ("", "cgroup.procs"))


def _second(mount: _Mount, path: Path) -> GroupTree | str:
    path = _above(path)
    if _MEMORY not in _words(path / "cgroup.controllers"):
        return f"{path} has no memory controller"
    if not _is_ours(path):
        return f"{path} is not writable for us"
    is_ready = _MEMORY in _words(path / "cgroup.subtree_control")
    if not (is_ready or path == mount.point or _is_delegated(path)):
        return f"{path} was not delegated to us"
    return GroupTree(path, 2)


def _is_delegated(path: Path) -> bool:
    for name in _DELEGATED:
        try:
            if os.getxattr(path, name) == b"1":
                return True
        except OSError:
            continue
    return False


def _mounts(text: str) -> Iterator[_Mount]:
    """As proc(5) has them; a dash stands before the kind."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if len(fields) > 4 and len(rest) > 2:
            point = Path(fields[4].encode().decode("unicode_escape"))
            yield _Mount(fields[3], point, rest[0], rest[2])


def _group(text: str, controller: str) -> str:
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return path
    return "/"


def _where(mount: _Mount, group: str) -> Path:
    if mount.root != "/" and group.startswith(mount.root):
        group = group.removeprefix(mount.root)
    return mount.point / group.lstrip("/")


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
