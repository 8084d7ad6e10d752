import fcntl
import os
from pathlib import Path

from tgpu.engines.local import record
from tgpu.engines.local.record import Claim, Exit


def test_only_one_can_claim_an_attempt(tmp_path: Path) -> None:
    path = str(tmp_path / "job/1")
    assert record.claim_void(path)
    assert not record.claim_void(path)
    assert record.read_claim(path, "") == Claim(void=True)


def test_an_unclaimed_attempt_has_no_claim(tmp_path: Path) -> None:
    assert record.read_claim(str(tmp_path), "") is None


def test_a_claim_cut_short_tells_as_much_as_was_written(tmp_path: Path) -> None:
    (tmp_path / "attempt.jsonl").write_text(
        '{"runner":5,"runner_start":6,"boot":"b"}\n{"main":7,"main_st'
    )
    assert record.read_claim(str(tmp_path), "") == Claim(runner=5, runner_start=6, boot="b")


def test_an_empty_claim_names_no_runner(tmp_path: Path) -> None:
    (tmp_path / "attempt.jsonl").touch()
    assert record.read_claim(str(tmp_path), "") == Claim()


def _new_record(tmp_path: Path) -> int:
    directory = record.open_directory(str(tmp_path))
    paper = record.create_claim(directory)
    os.close(directory)
    assert paper is not None
    return paper


def test_the_last_exit_written_is_the_one_that_counts(tmp_path: Path) -> None:
    paper = _new_record(tmp_path)
    for end in (Exit(3, None, 10), Exit(137, 9, 10, 20, 1, 2, 3)):
        record.write_exit(paper, end)
        assert record.read_exit(str(tmp_path), "") == end
    os.close(paper)


def test_the_bare_exit_code_is_read_like_a_full_record(tmp_path: Path) -> None:
    paper = _new_record(tmp_path)
    for end in (Exit(3, None, 10), Exit(137, 9, 10)):
        record.write_exit_code(paper, end)
        assert record.read_exit(str(tmp_path), "") == end
    os.close(paper)


def test_an_exit_is_read_also_behind_a_line_cut_short_by_a_full_disk(tmp_path: Path) -> None:
    paper = _new_record(tmp_path)
    os.write(paper, b'{"main":7,"mai')
    record.write_exit(paper, Exit(3, None, 10))
    os.close(paper)
    assert record.read_exit(str(tmp_path), "") == Exit(3, None, 10)


def test_claim_and_process_are_read_from_their_lines(tmp_path: Path) -> None:
    paper = _new_record(tmp_path)
    record.write_claim(paper, {"runner": 5, "runner_start": 6, "boot": "b"}, {"argv": ["x"]})
    record.write_main(paper, 7, 8, 9)
    os.close(paper)
    assert record.read_claim(str(tmp_path), "") == Claim(5, 6, "b", False, 7, 8, 9)


def test_an_attempt_is_locked_as_long_as_its_runner_holds_the_directory(tmp_path: Path) -> None:
    directory = record.open_directory(str(tmp_path))
    fcntl.flock(directory, fcntl.LOCK_EX)
    assert record.is_locked(str(tmp_path))
    os.close(directory)
    assert not record.is_locked(str(tmp_path))


def test_an_attempt_without_a_directory_is_not_locked(tmp_path: Path) -> None:
    assert not record.is_locked(str(tmp_path / "none"))
