"""Which process of a job a shell is opened beside, on a /proc made for it."""

import os
from pathlib import Path

from tgpu.host.job_process import surroundings


class Proc:
    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, pid: int, env: dict[str, str], children: tuple[int, ...] = ()) -> None:
        folder = self.root / str(pid)
        (folder / "task" / str(pid)).mkdir(parents=True)
        (folder / "task" / str(pid) / "children").write_text(" ".join(map(str, children)))
        text = "".join(f"{name}={value}\0" for name, value in env.items())
        (folder / "environ").write_text(text)
        (folder / "status").write_text(
            "Name:\tx\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\nGroups:\t8 9\n"
        )
        os.symlink("/somewhere", folder / "cwd")

    def find(self, words: list[str], rank: int | None = None) -> dict[str, str] | None:
        """The process was started with these words."""
        for folder in self.root.iterdir():
            (folder / "cmdline").write_text("\0".join([*words, ""]))
        found = surroundings("j", 1, rank, self.root)
        return None if found is None else found.env


def job(**more: str) -> dict[str, str]:
    return {"TGPU_JOB_ID": "j", **more}


def test_the_surroundings_are_those_of_the_command(tmp_path):
    proc = Proc(tmp_path)
    proc.add(1, job(TOKEN="a=b", LINES="1\n2"), (2,))
    proc.add(2, job(TOKEN="other"))
    found = surroundings("j", 1, None, tmp_path)
    assert found is not None
    assert found.env == job(TOKEN="a=b", LINES="1\n2")
    assert (found.cwd, found.uid, found.gid, found.groups) == ("/somewhere", 7, 8, (8, 9))


def test_a_process_of_ours_before_the_command_is_passed_over(tmp_path):
    proc = Proc(tmp_path)
    proc.add(1, {}, (2,))
    proc.add(2, job(IT="is"))
    assert proc.find(["python"]) == job(IT="is")


def test_a_worker_is_found_by_its_rank(tmp_path):
    proc = Proc(tmp_path)
    proc.add(1, {}, (2, 3))
    proc.add(2, job(TGPU_RANK="0"))
    proc.add(3, job(TGPU_RANK="1"))
    assert proc.find(["python"], 1) == job(TGPU_RANK="1")
    assert proc.find(["python"], 2) is None


def test_behind_conda_and_uv_is_the_environment_that_they_made(tmp_path):
    proc = Proc(tmp_path)
    proc.add(1, job(), (2,))
    proc.add(2, job(), (3,))
    proc.add(3, job(CONDA_PREFIX="/envs/x"), (4,))
    proc.add(4, job(CONDA_PREFIX="/envs/x", CHILD="1"))
    assert proc.find(["/opt/conda/bin/conda", "run", "x"]) == job(CONDA_PREFIX="/envs/x")
    scripted = ["/opt/conda/bin/python", "/opt/conda/bin/conda", "run", "x"]
    assert proc.find(scripted) == job(CONDA_PREFIX="/envs/x")
    assert proc.find(["/usr/bin/uv", "run", "x"]) == job()
    assert proc.find(["uv", "sync"]) == job()


def test_a_number_that_is_another_process_now_is_not_the_job(tmp_path):
    proc = Proc(tmp_path)
    proc.add(1, {"TGPU_JOB_ID": "another"})
    assert proc.find(["python"]) is None
    assert surroundings("j", 99, None, tmp_path) is None
