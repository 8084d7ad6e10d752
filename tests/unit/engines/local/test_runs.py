"""The starts that are on record, each time a command was started."""

import json
from pathlib import Path

from tgpu.engines.api import AttemptKey, RecordedStart
from tgpu.engines.local.runs import read_runs

CLAIM = {"runner": 7, "boot": "b", "identity": "1f"}
START = {"main": 2**30, "main_start": 1, "started_at": 100}
END = {"exit": {"exit_code": 0, "ended_at": 140, "gone_at": 150}}


def write(root: Path, name: str, *lines: object) -> None:
    directory = root / "jobs" / name
    directory.mkdir(parents=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / "attempt.jsonl").write_text(text)


def test_a_start_is_told_with_its_end(tmp_path: Path) -> None:
    write(tmp_path, "a/1", CLAIM, START, END)
    assert read_runs(tmp_path) == [RecordedStart(AttemptKey("a", 1, "1f"), 100, 150)]


def test_one_whose_end_nobody_saw_is_neither_over_nor_alive(tmp_path: Path) -> None:
    write(tmp_path, "a/1", CLAIM, START)
    assert read_runs(tmp_path) == [RecordedStart(AttemptKey("a", 1, "1f"), 100)]


def test_a_second_start_shows(tmp_path: Path) -> None:
    write(tmp_path, "a/1", CLAIM, START, {**START, "started_at": 120}, END)
    assert [run.started_at for run in read_runs(tmp_path)] == [100, 120]


def test_what_was_never_started_is_no_run(tmp_path: Path) -> None:
    write(tmp_path, "a/1", {"void": True, "identity": "1f"})
    write(tmp_path, "b/1", CLAIM, {"exit": {"not_started": "no such directory: /x"}})
    assert read_runs(tmp_path) == []


def test_what_was_moved_aside_for_another_job_of_its_name_counts_too(tmp_path: Path) -> None:
    write(tmp_path, "a/1.1f", CLAIM, START, END)
    assert read_runs(tmp_path) == [RecordedStart(AttemptKey("a", 1, "1f"), 100, 150)]
