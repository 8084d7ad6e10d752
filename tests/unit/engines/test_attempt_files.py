"""Whatever stands in a file's place: it is opened safely or not at all, and nobody waits for it."""

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tgpu.engines.attempt_files import (
    NotPlain,
    make_attempt,
    new_file,
    open_attempt,
    read_piece,
    read_whole,
)


@pytest.fixture(autouse=True)
def _nothing_hangs() -> Iterator[None]:
    """A test that waits for a pipe would wait for ever."""
    signal.alarm(20)
    yield
    signal.alarm(0)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def hanging_link(path: Path) -> None:
    path.symlink_to("nowhere")


def hard_link(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("secret")
    os.link(other, path)


def folder(path: Path) -> None:
    path.mkdir()


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def device(path: Path) -> None:
    if os.geteuid() != 0:
        path.symlink_to("/dev/zero")
        return
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero


PLANTED = [pipe, link, hanging_link, hard_link, folder, unix_socket, device]


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    path = tmp_path / "7" / "1"
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_what_is_no_plain_file_is_not_read(attempt: Path, plant: Callable[[Path], None]) -> None:
    plant(attempt / "stdout.log")
    with pytest.raises(NotPlain):
        read_piece(str(attempt), "stdout.log", 0, 100)
    with pytest.raises(NotPlain):
        read_whole(str(attempt), "stdout.log", 100)


def test_the_sentence_says_what_it_is(attempt: Path) -> None:
    pipe(attempt / "stdout.log")
    with pytest.raises(NotPlain, match="it is a named pipe and no file"):
        read_piece(str(attempt), "stdout.log", 0, 100)


@pytest.mark.parametrize("level", ["7", "7/1"])
def test_no_link_is_followed_on_the_way(tmp_path: Path, level: str) -> None:
    real = tmp_path / "elsewhere" / "1"
    real.mkdir(parents=True)
    (real / "stdout.log").write_text("theirs")
    planted = tmp_path / level
    planted.parent.mkdir(exist_ok=True)
    planted.symlink_to(real.parent if level == "7" else real)
    path = str(tmp_path / "7" / "1")
    for act in (open_attempt, make_attempt):
        with pytest.raises(NotPlain, match="it is a link and no directory"):
            act(path)
    with pytest.raises(NotPlain):
        read_piece(path, "stdout.log", 0, 100)


def test_nothing_is_made_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "7").symlink_to("elsewhere")
    with pytest.raises(NotPlain):
        make_attempt(str(tmp_path / "7" / "1"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_directory_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    os.chown(tmp_path / "7", 12345, 12345)
    with pytest.raises(NotPlain, match="somebody else's"):
        make_attempt(str(tmp_path / "7" / "1"))


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_new_file_is_new_whatever_was_there(attempt: Path, plant: Callable[[Path], None]) -> None:
    plant(attempt / "stdout.log")
    directory = open_attempt(str(attempt))
    try:
        if plant is folder:
            with pytest.raises(OSError, match="Is a directory"):
                new_file("stdout.log", os.O_WRONLY, directory)
            return
        os.close(new_file("stdout.log", os.O_WRONLY | os.O_APPEND, directory))
    finally:
        os.close(directory)
    assert read_piece(str(attempt), "stdout.log", 0, 10).size == 0
    assert not (attempt / "other").exists() or (attempt / "other").read_text() == "secret"


def test_a_lease_on_a_log_holds_nobody_up(attempt: Path) -> None:
    log = attempt / "stdout.log"
    log.write_text("said")
    holder = subprocess.Popen(
        [sys.executable, "-c", _LEASE.format(fcntl.F_SETLEASE, fcntl.F_WRLCK), str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(NotPlain, match="lease") as raised:
        read_piece(str(attempt), "stdout.log", 0, 100)
    assert raised.value.errno == errno.EWOULDBLOCK
    holder.communicate("")


_LEASE = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, {}, {})
print("held", flush=True)
sys.stdin.read()
"""


def test_of_a_giant_with_nothing_in_it_nothing_is_read(attempt: Path) -> None:
    log = attempt / "stdout.log"
    log.write_text("said\n")
    os.truncate(log, 1 << 40)
    first = read_piece(str(attempt), "stdout.log", 0, 10_000_000)
    assert first.data.rstrip(b"\0") == b"said\n"
    assert len(first.data) <= 65536  # the block it is in
    assert first.size == 1 << 40
    assert first.left_out == (1 << 40) - len(first.data)
    behind = read_piece(str(attempt), "stdout.log", len(first.data), 10_000_000)
    assert (behind.data, behind.offset) == (b"", 1 << 40)


def test_a_stretch_that_is_not_there_is_passed_over(attempt: Path) -> None:
    log = attempt / "stdout.log"
    with log.open("wb") as file:
        file.write(b"a" * 65536)
        file.seek(1 << 30)
        file.write(b"z" * 65536)
    path = str(attempt)
    head = read_piece(path, "stdout.log", 60_000, 10_000_000)
    assert (head.data, head.offset) == (b"a" * 5536, 60_000)
    tail = read_piece(path, "stdout.log", 65536, 10_000_000)
    assert (tail.data, tail.offset) == (b"z" * 65536, 1 << 30)
    assert tail.left_out == (1 << 30) - 65536
    end = read_piece(path, "stdout.log", -(1 << 31), 10_000_000)
    assert end.offset == 1 << 30


def test_where_there_is_no_log_there_is_nothing(tmp_path: Path) -> None:
    assert read_piece(str(tmp_path / "7" / "1"), "stdout.log", 5, 10).data == b""
