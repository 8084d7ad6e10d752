"""Where groups that limit memory can be made, in trees made of plain directories."""

import os
from pathlib import Path

import pytest

from tgpu.devices.control_groups import GroupTree, device_tree, fence_doors, memory_tree

UNIFIED = "35 24 0:30 / {point} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
FIRST = "36 24 0:31 {root} {point} rw - cgroup cgroup rw,memory\n"
GROUP = "user.slice/app.slice/gpu.service"


class Machine:
    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.top = root / "sys"
        (self.proc / "self").mkdir(parents=True)

    def with_unified(self, group: str = GROUP, controllers: str = "cpu memory") -> Path:
        self._say(UNIFIED.format(point=self.top), f"0::/{group}\n")
        path = self.top / group
        path.mkdir(parents=True)
        (path / "cgroup.controllers").write_text(controllers)
        (path / "cgroup.subtree_control").write_text("")
        (path / "cgroup.procs").write_text("")
        return path

    def with_first(self, group: str, root: str = "/") -> None:
        self._say(FIRST.format(point=self.top, root=root), f"4:memory:{group}\n0::/\n")

    def find(self) -> GroupTree | str:
        return memory_tree(proc=self.proc)

    def _say(self, mounts: str, groups: str) -> None:
        (self.proc / "self" / "mountinfo").write_text(
            f"23 1 8:1 / / rw - ext4 /dev/sda rw\n{mounts}"
        )
        (self.proc / "self" / "cgroup").write_text(groups)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_group_that_was_delegated_will_do(machine, monkeypatch):
    path = machine.with_unified()
    attributes = {(path, "user.delegate"): b"1"}

    def of(where: Path, name: str) -> bytes:
        if (where, name) not in attributes:
            raise OSError
        return attributes[where, name]

    monkeypatch.setattr(os, "getxattr", of)
    assert machine.find() == GroupTree(path, 2)


def test_a_group_that_was_not_delegated_is_left_alone(machine):
    path = machine.with_unified()
    assert machine.find() == f"{path} was not delegated to us"


def test_without_the_memory_controller_there_is_none(machine):
    machine.with_unified(controllers="cpu hugetlb")
    assert "no memory controller" in machine.find()


def test_once_our_own_processes_have_moved_it_is_the_group_above(machine):
    path = machine.with_unified(f"{GROUP}/tgpu-own").parent
    (path / "cgroup.controllers").write_text("memory")
    (path / "cgroup.subtree_control").write_text("memory\n")
    (path / "cgroup.procs").write_text("")
    assert machine.find() == GroupTree(path, 2)


def test_the_top_of_what_a_container_sees_will_do(machine):
    path = machine.with_unified("")
    assert machine.find() == GroupTree(path, 2)


@pytest.mark.parametrize(
    ("group", "root", "below"), [("/a/b", "/", "a/b"), ("/docker/x/b", "/docker/x", "b")]
)
def test_the_first_version_takes_permission_alone(machine, group, root, below):
    machine.with_first(group, root)
    (machine.top / below).mkdir(parents=True)
    tree = machine.find()
    assert tree == GroupTree(machine.top / below, 1)
    assert (tree.limit_file, tree.events_file) == ("memory.limit_in_bytes", "memory.oom_control")


def test_what_is_not_there_is_said(machine):
    assert "cannot be read" in machine.find()
    machine.with_first("/nowhere")
    assert "is not writable for us" in machine.find()
    (machine.proc / "self" / "mountinfo").write_text("")
    assert "no control groups" in machine.find()


LISTS = "37 24 0:32 / {point} rw - cgroup cgroup rw,devices\n"


def test_devices_are_shut_by_version_1_where_it_is_ours(machine):
    machine._say(LISTS.format(point=machine.top), "5:devices:/a\n0::/\n")
    assert device_tree(proc=machine.proc) == f"{machine.top}/a is not writable for us"
    (machine.top / "a").mkdir(parents=True)
    assert device_tree(proc=machine.proc) == GroupTree(machine.top / "a", 1)


def test_without_the_controller_it_is_said(machine):
    machine.with_unified()
    assert device_tree(proc=machine.proc) == "there is no devices controller of version 1"


def test_the_doors_to_the_fence_of_a_job(machine):
    (machine.proc / "7").mkdir()
    mounts = UNIFIED.format(point="/two") + LISTS.format(point="/one")
    (machine.proc / "7" / "mountinfo").write_text(mounts)
    groups = machine.proc / "7" / "cgroup"
    groups.write_text("5:devices:/tgpu-fence-1-j\n0::/s/tgpu-runner-1-2/tgpu-fence-1-j\n")
    two = Path("/two/s/tgpu-runner-1-2/tgpu-fence-1-j/cgroup.procs")
    assert fence_doors(7, machine.proc) == [two, Path("/one/tgpu-fence-1-j/cgroup.procs")]
    groups.write_text("5:devices:/\n0::/s/tgpu-runner-1-2\n")
    assert fence_doors(7, machine.proc) == []
    assert fence_doors(8, machine.proc) == []
