import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tgpu.engines.local.journal import AttemptJournal


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "attempts.log")


@pytest.fixture
def journal(path: str) -> Iterator[AttemptJournal]:
    journal = AttemptJournal(path)
    journal.rewrite([])
    yield journal
    journal.close()


def test_records_are_replayed_in_their_order(journal: AttemptJournal, path: str) -> None:
    journal.append("launch", "a", 1)
    journal.flush()
    journal.append("over", "a", 1, sync=False)
    journal.flush()
    assert AttemptJournal(path).replay() == [["launch", "a", 1], ["over", "a", 1]]


def test_nothing_is_written_before_it_is_flushed(journal: AttemptJournal, path: str) -> None:
    journal.append("launch", "a", 1)
    assert AttemptJournal(path).replay() == []


def test_a_last_line_cut_anywhere_is_as_if_never_written(
    journal: AttemptJournal, path: str
) -> None:
    journal.append("launch", "a", 1)
    journal.append("over", "a", 1)
    journal.flush()
    whole = Path(path).read_bytes()
    last = whole.rindex(b"[")
    for length in range(last, len(whole)):
        Path(path).write_bytes(whole[:length])
        assert AttemptJournal(path).replay() == [["launch", "a", 1]]


def test_a_rewrite_keeps_only_what_it_is_given(journal: AttemptJournal, path: str) -> None:
    journal.append("launch", "a", 1)
    journal.flush()
    journal.rewrite([("launch", "b", 1)])
    journal.append("over", "b", 1)
    journal.flush()
    assert AttemptJournal(path).replay() == [["launch", "b", 1], ["over", "b", 1]]


def test_a_newer_journal_is_refused(path: str) -> None:
    Path(path).write_text('["version",3]\n')
    with pytest.raises(ValueError, match="newer version"):
        AttemptJournal(path).replay()


def test_a_journal_of_before_identities_names_attempts_without_one(path: str) -> None:
    Path(path).write_text(
        '["version",1]\n["launch","a",1,"boot",5,null]\n["end","a",1,"stopped"]\n'
    )
    assert AttemptJournal(path).replay() == [
        ["launch", "a", 1, "", "boot", 5, None],
        ["end", "a", 1, "", "stopped"],
    ]


def test_a_flush_that_failed_half_way_can_be_repeated(
    journal: AttemptJournal, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append("launch", "a", 1)
    write = os.write
    written: list[bytes] = []

    def short_write(fd: int, data: bytes) -> int:
        if written:
            raise OSError(28, "No space left on device")
        written.append(data[:5])
        return write(fd, data[:5])

    with monkeypatch.context() as full_disk:
        full_disk.setattr(os, "write", short_write)
        with pytest.raises(OSError, match="No space"):
            journal.flush()
    journal.flush()
    assert AttemptJournal(path).replay() == [["launch", "a", 1]]


def test_one_that_cannot_be_written_anew_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "attempts.log"
    path.write_bytes(b'["version",1]\n["launch","a",1]\n["launch","b"')  # the last was cut short
    journal = AttemptJournal(str(path))
    assert journal.replay() == [["launch", "a", 1, ""]]
    journal.resume()
    journal.append("over", "a", 1, "ab")
    journal.flush()
    journal.close()
    assert AttemptJournal(str(path)).replay() == [["launch", "a", 1, ""], ["over", "a", 1, "ab"]]
