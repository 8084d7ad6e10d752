"""What is gathered of attempts that failed, and that nothing missing does harm."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tgpu.engines.api import AttemptKey, Observation, Phase
from tgpu.engines.attempt_files import OUT_OF_MEMORY
from tgpu.engines.file_reads import FileReads
from tgpu.engines.local.evidence import gather, kernel_kills, log_tail

KEY = AttemptKey("7", 1)


def in_one_folder(root: Path) -> Callable[[AttemptKey], str]:
    return lambda key: str(root)


def seen(code: int = 1, cause: str | None = None, phase: Phase = Phase.EXITED) -> Observation:
    return Observation(KEY, phase, 900, exit_code=code, cause=cause)


async def test_the_ends_of_both_logs_are_read_errors_last(tmp_path: Path) -> None:
    (tmp_path / "stdout.log").write_bytes(b"x" * 100_000 + b"out\n")
    (tmp_path / "stderr.log").write_bytes(b"err\xff\n")
    found = await gather(in_one_folder(tmp_path), [seen()], FileReads())
    tail = found[KEY].log_tail
    assert tail.endswith("out\n\nerr\N{REPLACEMENT CHARACTER}\n")
    assert len(tail) < 40_000


@pytest.mark.parametrize(
    "observation",
    [
        seen(0),
        seen(1, "time_limit"),
        seen(1, "stopped"),
        seen(phase=Phase.LOST),
        seen(phase=Phase.RUNNING),
    ],
    ids=["well", "time limit", "stopped", "lost", "running"],
)
async def test_of_others_nothing_is_read(tmp_path: Path, observation: Observation) -> None:
    (tmp_path / "stdout.log").write_text("CUDA out of memory")
    assert await gather(in_one_folder(tmp_path), [observation], FileReads()) == {}


@pytest.mark.parametrize(("text", "limit"), [("1048576\n", 2**20), ("nonsense", None)])
async def test_a_limit_that_ended_it_is_read(tmp_path: Path, text: str, limit: int | None) -> None:
    (tmp_path / "stderr.log").write_text("Killed\n")
    (tmp_path / OUT_OF_MEMORY).write_text(text)
    found = await gather(in_one_folder(tmp_path), [seen(2)], FileReads())
    assert found[KEY].memory_limit_bytes == limit


def test_logs_that_are_not_there_tell_nothing(tmp_path: Path) -> None:
    assert log_tail(str(tmp_path)).strip() == ""


def test_a_pipe_in_the_place_of_a_log_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "stdout.log")
    (tmp_path / "stderr.log").symlink_to("/etc/passwd")
    assert log_tail(str(tmp_path)).strip() == ""


RECORDS = b"""\
6,100,1000,-;usb 1-1: new device
3,101,2000,-;Out of memory: Killed process 4711 (python) total-vm:1kB
3,102,3000,-,caller=T1;Memory cgroup out of memory: Killed process 4712 (sh) total-vm:1kB
"""


def test_whom_the_kernel_killed_is_read_from_its_messages(tmp_path: Path) -> None:
    messages = tmp_path / "kmsg"
    messages.write_bytes(RECORDS)
    first, second = kernel_kills(messages)
    assert (first.pid, second.pid) == (4711, 4712)
    assert first.text == "Out of memory: Killed process 4711 (python) total-vm:1kB"
    assert first.ago_ms >= second.ago_ms > 0


def test_messages_that_nobody_may_read_tell_nothing(tmp_path: Path) -> None:
    assert kernel_kills(tmp_path / "nothing") == ()


async def test_the_kernel_is_asked_only_where_somebody_was_killed(tmp_path: Path) -> None:
    messages = tmp_path / "kmsg"
    messages.write_bytes(RECORDS)
    find = in_one_folder(tmp_path)
    assert (await gather(find, [seen(1)], FileReads(), messages))[KEY].kills == ()
    assert len((await gather(find, [seen(137)], FileReads(), messages))[KEY].kills) == 2


async def test_files_that_never_answer_cost_one_job_its_evidence_and_not_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("hung", "well"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stderr.log").write_text("said")
    stuck = threading.Event()

    def tail(directory: str) -> str:
        if directory.endswith("hung"):
            stuck.wait(20)
        return log_tail(directory)

    monkeypatch.setattr("tgpu.engines.local.evidence.log_tail", tail)
    batch = [Observation(AttemptKey(n, 1), Phase.EXITED, 9, exit_code=1) for n in ("hung", "well")]
    found = await gather(lambda key: str(tmp_path / key.job_id), batch, FileReads(seconds=0.2))
    stuck.set()
    assert [key.job_id for key in found] == ["well"]
