"""Whose a process is that nobody is the parent of any more."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tgpu.engines.local import runner_group, survivors
from tgpu.engines.local.attempts import Attempt
from tgpu.engines.local.processes import CannotTell, read_process, start_time
from tgpu.engines.local.survivors import Survivors

_MARKS = {"TGPU_JOB_ID": "j", "TGPU_ATTEMPT": "2", "TGPU_LOG_DIR": "/engine/jobs/j/2"}


@contextmanager
def a_process(env: dict[str, str]) -> Iterator[int]:
    words = [sys.executable, "-IS", "-c", "import time; print(flush=True); time.sleep(600)"]
    with subprocess.Popen(
        words, env=env, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def an_attempt(identity: str = "") -> Attempt:
    return Attempt(("j", 2, identity), "/engine/jobs/j/2", 0, None, "boot")


def found(attempt: Attempt, pid: int) -> bool:
    return pid in [process.pid for process in Survivors({"/engine"}).of(attempt)]


def test_a_process_is_known_by_all_of_its_marks() -> None:
    with a_process(_MARKS) as pid:
        assert found(an_attempt(), pid)
    for name, value in (
        ("TGPU_JOB_ID", "k"),
        ("TGPU_ATTEMPT", "3"),
        ("TGPU_LOG_DIR", "/other/jobs/j/2"),
        ("TGPU_LOG_DIR", "/engine/jobs/j/22"),
    ):
        with a_process({**_MARKS, name: value}) as pid:
            assert not found(an_attempt(), pid)


def test_a_job_of_the_same_number_and_another_identity_is_another() -> None:
    with a_process({**_MARKS, "TGPU_JOB_UUID": "a" * 32}) as pid:
        assert found(an_attempt("a" * 32), pid)
        assert not found(an_attempt("b" * 32), pid)


def test_whoever_is_in_the_control_group_is_of_the_attempt(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    with a_process({}) as pid:
        (tmp_path / "cgroup.procs").write_text("")
        (tmp_path / "below" / "cgroup.procs").write_text(f"{pid}\n")
        attempt = an_attempt()
        assert not found(attempt, pid)
        attempt.group = str(tmp_path)
        assert found(attempt, pid)
        attempt.group = str(tmp_path / "gone")
        assert not found(attempt, pid)


def test_a_group_that_cannot_be_read_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup.procs").mkdir()
    with pytest.raises(CannotTell):
        runner_group.members(str(tmp_path))


def test_what_cannot_be_looked_at_may_be_of_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_process({}) as pid:
        start = start_time(pid)
        orphan = read_process(pid)
        assert orphan is not None
        monkeypatch.setattr(survivors, "all_processes", lambda: [orphan._replace(ppid=1)])
        monkeypatch.setattr(survivors, "_read_mark", lambda pid: None)
        attempt = an_attempt()
        attempt.since, attempt.uid = start, os.geteuid()
        hidden = Survivors({"/engine"}).hidden(attempt)
        assert hidden is not None
        assert hidden.pid == pid
        attempt.since = start + 1  # it was there before
        assert Survivors({"/engine"}).hidden(attempt) is None
        attempt.since, attempt.uid = start, os.geteuid() + 1
        assert Survivors({"/engine"}).hidden(attempt) is None
        attempt.uid, attempt.group = os.geteuid(), "/sys/fs/cgroup/x"  # the kernel would tell
        assert Survivors({"/engine"}).hidden(attempt) is None
