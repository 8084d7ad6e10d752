"""Where a process comes from, read from a /proc that the test has made, and from the real one."""

import os
from pathlib import Path

import pytest

from tgpu.engines.api import AttemptKey, JobMark
from tgpu.engines.local.lineage import UNSEEN, lineage_of


def a_process(
    proc: Path, pid: int, parent: int, env: dict[str, str] | None = None, state: str = "S"
) -> Path:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} (a ) name) {state} {parent} 1 1")
    lines = [f"{name}={value}\0" for name, value in (env or {}).items()]
    (folder / "environ").write_text("".join(lines))
    (folder / "cgroup").write_text("0::/user.slice\n")
    return folder


OF_7 = {"TGPU_JOB_ID": "7", "TGPU_ATTEMPT": "2", "TGPU_LOG_DIR": "/d/jobs/7/2", "OTHER": "x"}
MARK = JobMark(AttemptKey("7", 2), "/d/jobs/7/2")


def test_ancestors_and_marks_of_all_of_them_are_found(tmp_path: Path) -> None:
    a_process(tmp_path, 1, 0)
    a_process(tmp_path, 20, 1, OF_7)
    a_process(tmp_path, 30, 20)
    found = lineage_of(30, tmp_path)
    assert (found.pids, found.marks, found.is_whole) == ((30, 20, 1), (MARK,), True)


def test_a_process_that_is_gone_is_not_seen(tmp_path: Path) -> None:
    assert lineage_of(30, tmp_path) == UNSEEN
    a_process(tmp_path, 30, 1, state="Z")
    assert lineage_of(30, tmp_path) == UNSEEN
    assert lineage_of(0, tmp_path) == UNSEEN  # of another pid namespace


def test_what_is_hidden_makes_it_less_than_whole(tmp_path: Path) -> None:
    a_process(tmp_path, 20, 1)  # its own parent cannot be seen
    assert not lineage_of(20, tmp_path).is_whole
    a_process(tmp_path, 1, 0)
    assert lineage_of(20, tmp_path).is_whole
    (tmp_path / "20" / "environ").unlink()
    assert not lineage_of(20, tmp_path).is_whole


def test_a_ring_of_parents_ends(tmp_path: Path) -> None:
    a_process(tmp_path, 20, 30)
    a_process(tmp_path, 30, 20)
    found = lineage_of(20, tmp_path)
    assert (found.pids, found.is_whole) == ((20, 30), False)


@pytest.mark.parametrize(
    "changed", [{"TGPU_ATTEMPT": "²"}, {"TGPU_ATTEMPT": "9" * 40}, {"TGPU_LOG_DIR": ""}]
)
def test_half_a_mark_is_none(tmp_path: Path, changed: dict[str, str]) -> None:
    a_process(tmp_path, 1, 0, OF_7 | changed)
    assert lineage_of(1, tmp_path).marks == ()


def test_a_control_group_of_a_job_is_known(tmp_path: Path) -> None:
    folder = a_process(tmp_path, 1, 0)
    (folder / "cgroup").write_text("4:memory:/tgpu/tgpu-job-4711-my-job.3-12\n0::/\n")
    assert lineage_of(1, tmp_path).group == AttemptKey("my-job.3", 12)


def test_the_real_one() -> None:
    found = lineage_of(os.getpid())
    assert found.pids[:2] == (os.getpid(), os.getppid())
    assert found.is_whole
