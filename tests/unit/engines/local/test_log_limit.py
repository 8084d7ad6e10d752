"""Logs that grow over their limit: what is kept, what is freed, what is said."""

import os
from pathlib import Path

import pytest

from tgpu.engines.attempt_files import open_attempt, read_piece
from tgpu.engines.local import log_limit
from tgpu.engines.local.log_limit import LogLimit

MIB = 1 << 20


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    path = tmp_path / "7" / "1"
    path.mkdir(parents=True)
    for name in ("stdout.log", "stderr.log"):
        (path / name).touch()
    return path


def limit_of(attempt: Path, limit: int) -> LogLimit:
    directory = open_attempt(str(attempt))
    try:
        return LogLimit(directory, limit)
    finally:
        os.close(directory)


def write_lines(limit: LogLimit, log: Path, lines: int, look_every: int = 500) -> int:
    """As a command does, with looks in between; the most room it ever took up right after one."""
    most = 0
    with log.open("ab", buffering=0) as file:
        for number in range(lines):
            file.write(b"%08d %s\n" % (number, b"x" * 990))
            if number % look_every == 0:
                limit.look()
                most = max(most, log.stat().st_blocks * 512)
    limit.look()
    return most


def shown(attempt: Path, name: str = "stdout.log") -> bytes:
    """What somebody sees who reads it piece by piece."""
    whole, offset = b"", 0
    while (piece := read_piece(str(attempt), name, offset, 300_000)).data:
        whole += piece.data
        offset = piece.offset + len(piece.data)
    return whole


def test_the_beginning_and_the_end_are_kept_and_the_rest_takes_no_room(attempt: Path) -> None:
    limit = limit_of(attempt, MIB)
    log = attempt / "stdout.log"
    most = write_lines(limit, log, 20_000)
    assert log.stat().st_size == 20_000 * 1000  # offsets are what they were
    assert most < 1.5 * MIB
    assert log.stat().st_blocks * 512 <= MIB
    text = shown(attempt)
    assert text.startswith(b"00000000 x")
    assert text.endswith(b"00019999 " + b"x" * 990 + b"\n")
    assert b"00000400 " in text  # half of it is the beginning
    said = [line for line in text.decode().splitlines() if "left out" in line]
    assert len(said) == 1
    assert said[0].startswith("[… 18.")
    assert "MiB of output left out: the log limit is 1 MiB" in said[0]
    assert b"\0" not in text
    assert read_piece(str(attempt), "stdout.log", 0, 1).left_out > 18 * MIB
    tail = read_piece(str(attempt), "stdout.log", -10 * MIB, 10 * MIB)
    assert tail.data.endswith(b"x\n")
    assert MIB // 8 < len(tail.data) <= MIB // 2
    limit.close()


def test_what_is_within_the_limit_stays_as_it_is(attempt: Path) -> None:
    limit = limit_of(attempt, MIB)
    write_lines(limit, attempt / "stderr.log", 1000)
    assert (attempt / "stderr.log").read_bytes().count(b"\n") == 1000
    assert not limit.look()  # nothing has grown since
    limit.close()


def test_another_process_goes_on_where_one_was_killed(attempt: Path) -> None:
    first = limit_of(attempt, MIB)
    log = attempt / "stdout.log"
    write_lines(first, log, 5_000)
    first.close()
    second = limit_of(attempt, MIB)
    write_lines(second, log, 5_000)
    second.close()
    assert log.stat().st_blocks * 512 <= MIB
    assert shown(attempt).count(b"left out") == 1


def test_where_there_can_be_no_holes_the_end_is_shorter(
    attempt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoHoles:
        def fallocate(self, *_: int) -> int:
            return -1

    monkeypatch.setattr(log_limit, "_libc", NoHoles())
    limit = limit_of(attempt, MIB)
    log = attempt / "stdout.log"
    most = write_lines(limit, log, 20_000)
    assert most < 1.5 * MIB
    text = shown(attempt)
    assert text.startswith(b"00000000 x")
    assert text.count(b"left out") == 1
    assert text.endswith(b"00019999 " + b"x" * 990 + b"\n")
    limit.close()
