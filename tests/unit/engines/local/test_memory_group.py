"""The group of an attempt, in a tree made of plain directories."""

import errno
import os
from pathlib import Path

import pytest

from tgpu.devices.control_groups import GroupTree
from tgpu.engines.attempt_files import OUT_OF_MEMORY
from tgpu.engines.local import memory_group
from tgpu.engines.local.memory_group import MemoryGroup, enter

LIMIT = 64 << 20
_NOBODY = 2**22 + 1  # more than any pid


@pytest.fixture(params=[1, 2])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> GroupTree:
    path = tmp_path / "groups"
    path.mkdir()
    (path / "cgroup.procs").write_text("")
    (path / "cgroup.subtree_control").write_text("memory")
    return GroupTree(path, request.param)


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    folder = tmp_path / "attempt"
    folder.mkdir()
    return folder


def close(group: MemoryGroup, attempt: Path) -> None:
    directory = os.open(attempt, os.O_RDONLY)
    try:
        group.close(directory)
    finally:
        os.close(directory)


def folder(tree: GroupTree) -> Path:
    return tree.path / f"tgpu-job-{os.getpid()}-j-1"


def test_a_group_has_its_limit_and_a_door(tree):
    group = MemoryGroup(tree, "j-1", LIMIT)
    assert (folder(tree) / tree.limit_file).read_text() == str(LIMIT)
    Path(group.procs).touch()
    enter(group.procs)
    assert (folder(tree) / "cgroup.procs").read_text() == "0"


@pytest.mark.parametrize(("kills", "is_told"), [(0, False), (2, True)])
def test_a_kill_is_written_down_beside_the_logs(tree, attempt, kills, is_told):
    group = MemoryGroup(tree, "j-1", LIMIT)
    (folder(tree) / tree.events_file).write_text(f"low 0\nmax 7\noom_kill {kills}\n")
    close(group, attempt)
    told = attempt / OUT_OF_MEMORY
    assert told.exists() == is_told
    assert not is_told or told.read_text() == f"{LIMIT}\n"


def test_what_runners_that_are_gone_left_is_removed(tree):
    left, ours = (tree.path / f"tgpu-job-{pid}-x-1" for pid in (_NOBODY, os.getpid()))
    left.mkdir()
    ours.mkdir()
    MemoryGroup(tree, "j-1", LIMIT)
    assert (left.exists(), ours.exists()) == (False, True)


def test_our_own_processes_make_room_for_groups_below(tmp_path, monkeypatch):
    (tmp_path / "cgroup.procs").write_text("11\n12\n")
    (tmp_path / "cgroup.subtree_control").write_text("")
    tried: list[Path] = []

    def enable(path: Path) -> None:
        tried.append(path)
        if not (path / "tgpu-own").exists():
            raise OSError(errno.EBUSY, "it has processes")

    monkeypatch.setattr(memory_group, "_enable", enable)
    MemoryGroup(GroupTree(tmp_path, 2), "j-1", LIMIT)
    assert len(tried) == 2
    assert (tmp_path / "tgpu-own" / "cgroup.procs").read_text() == "12"  # each is written alone


def test_a_tree_that_takes_no_groups_leaves_single_processes(tmp_path, monkeypatch):
    tree = GroupTree(tmp_path / "nothing", 1)
    monkeypatch.setattr(memory_group, "memory_tree", lambda: tree)
    assert memory_group.memory_group("j-1", LIMIT) is None
    monkeypatch.setattr(memory_group, "memory_tree", lambda: "there are none")
    assert memory_group.memory_group("j-1", LIMIT) is None
