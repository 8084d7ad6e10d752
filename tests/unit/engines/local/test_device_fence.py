"""Where the fence of an attempt is made, in trees made of plain directories."""

import errno
import os
from pathlib import Path

import pytest

from tgpu.devices.control_groups import GroupTree
from tgpu.devices.fencing import FenceKind, FenceTree
from tgpu.engines.local import device_fence
from tgpu.engines.local.device_fence import CannotFenceDevices, make_fence

WANTED = {"opened": [[195, 0]], "shut": [[195, 0, 1]], "required": False}
_NOBODY = 2**22 + 1  # more than any pid


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    found: list[Path] = []
    monkeypatch.setattr(device_fence, "_attach", lambda path, program: found.append(path))
    return found


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = FenceTree(FenceKind.PROGRAM, GroupTree(tmp_path, 2))
    monkeypatch.setattr(device_fence, "fence_tree", lambda: found)
    return tmp_path


def runner_group(tree: Path) -> Path:
    path = tree / "tgpu-runner-1-2"
    path.mkdir()
    return path


def test_it_is_a_group_below_the_runners(tree, attached):
    runner = runner_group(tree)
    fence = make_fence(WANTED, "j-1", str(runner), "")
    path = runner / f"tgpu-fence-{os.getpid()}-j-1"
    assert attached == [path]
    assert fence.procs == str(path / "cgroup.procs")
    fence.close()
    assert not path.exists()


def test_it_is_the_group_that_limits_memory_where_that_is_of_the_same_tree(tree, attached):
    memory = tree / "tgpu-job-1-j"
    memory.mkdir()
    fence = make_fence(WANTED, "j-1", str(runner_group(tree)), str(memory))
    assert attached == [memory]
    assert fence.procs is None  # its door is entered anyway
    fence.close()
    assert memory.exists()


def test_a_memory_group_of_version_1_is_another_matter(tree, attached):
    runner = runner_group(tree)
    make_fence(WANTED, "j-1", str(runner), "/sys/fs/cgroup/memory/tgpu-job-1-j")
    assert [path.parent for path in attached] == [runner]


def test_a_runner_without_a_group_cannot(tree, attached):
    with pytest.raises(CannotFenceDevices, match="no control group of its own"):
        make_fence(WANTED, "j-1", "", "")


def test_what_the_kernel_refuses_leaves_nothing_behind(tree, monkeypatch):
    def refuse(path: Path, program: bytes) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(device_fence, "_attach", refuse)
    runner = runner_group(tree)
    with pytest.raises(CannotFenceDevices, match="version 2, eBPF: Operation not permitted"):
        make_fence(WANTED, "j-1", str(runner), "")
    assert list(runner.iterdir()) == []


def test_lists_of_version_1_sweep_what_killed_runners_left(tmp_path, monkeypatch):
    found = FenceTree(FenceKind.LIST, GroupTree(tmp_path, 1))
    monkeypatch.setattr(device_fence, "fence_tree", lambda: found)
    monkeypatch.setattr(device_fence, "shut_devices", lambda path, opened, shut: None)
    left = tmp_path / f"tgpu-fence-{_NOBODY}-old-1"
    mine = tmp_path / f"tgpu-fence-{os.getpid()}-other-1"
    for path in (left, mine):
        path.mkdir()
    fence = make_fence(WANTED, "j-1", "", "")
    assert not left.exists()
    assert mine.exists()
    fence.close()
