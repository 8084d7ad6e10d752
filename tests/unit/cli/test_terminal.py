"""A terminal in a job: the process that holds it, and whoever sits in front of it."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tgpu.cli.sessions.running import holder_words, terminal_name
from tgpu.cli.terminal import doors, frames, seat
from tgpu.host import processes

_SECONDS = 20.0


def test_frames_come_whole_however_they_are_cut() -> None:
    sent = frames.frame(frames.DATA, b"abc") + frames.size_frame(24, 80) + frames.frame(frames.END)
    reader = frames.Frames()
    found = [each for byte in sent for each in reader.take(bytes([byte]))]
    assert [kind for kind, _ in found] == [frames.DATA, frames.SIZE, frames.END]
    assert found[0][1] == b"abc"
    assert frames.read_size(found[1][1]) == (24, 80)
    with pytest.raises(frames.NoFrame):
        list(frames.Frames().take(b"d\xff\xff\xff\xff"))


@pytest.mark.parametrize(
    ("typed", "kept", "leaves"),
    [
        ([b"ls\r"], b"ls\r", False),
        ([b"a\x1dd"], b"a", True),
        ([b"\x1d", b"d"], b"", True),
        ([b"\x1d\x1d"], b"\x1d", False),
        ([b"\x1dx\x03"], b"\x1dx\x03", False),
    ],
)
def test_the_keys_to_leave(typed: list[bytes], kept: bytes, leaves: bool) -> None:
    sitting = seat._Seat(None)  # type: ignore[arg-type]
    found = [sitting._without_keys(piece) for piece in typed]
    assert b"".join(piece for piece, _ in found) == kept
    assert found[-1][1] == leaves


def test_a_job_of_ours_is_known_by_its_command() -> None:
    assert terminal_name(holder_words("n1", ["bash"], keep=True, pipe=False)) == "n1"
    assert terminal_name(holder_words("n1", ["bash"], keep=False, pipe=True)) is None
    assert terminal_name(["bash"]) is None


@pytest.fixture
def held() -> Iterator["Held"]:
    made = Held()
    yield made
    made.close()


class Held:
    """A holder, and a process that sits in front of it at a terminal of the test's."""

    def __init__(self) -> None:
        self.name = doors.new_name()
        self.job: subprocess.Popen[bytes] | None = None
        self.terminal = -1
        self.sitting = 0
        self.seen = b""

    def start(self, *words: str, keep: bool = False, pipe: bool = False) -> "Held":
        command = holder_words(self.name, list(words), keep=keep, pipe=pipe)
        self.job = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        return self

    def sit(self) -> None:
        code = (
            "import sys; from tgpu.cli.terminal import seat; "
            f"line = seat.reach({self.name!r}, None, lambda: False); "
            "print('SITS', seat.sit(line).value)"
        )
        self.sitting, self.terminal = pty.fork()
        if self.sitting == 0:
            os.execv(sys.executable, [sys.executable, "-c", code])

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def shows(self, words: bytes) -> None:
        until = time.monotonic() + _SECONDS
        while words not in self.seen:
            assert time.monotonic() < until, self.seen
            if select.select([self.terminal], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.terminal, 65536)

    def ended(self) -> int:
        assert self.job is not None
        return self.job.wait(_SECONDS)

    def close(self) -> None:
        if self.terminal >= 0:
            os.close(self.terminal)
        if self.sitting:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.sitting, signal.SIGKILL)
            os.waitpid(self.sitting, 0)
        if self.job is not None:
            self.job.kill()
            self.job.communicate()


def test_a_terminal_with_a_size_keys_and_an_exit_code(held: Held) -> None:
    script = (
        'trap "echo caught; c=1" INT; echo ready; until [ "$c" ]; do sleep 0.1; done; '
        "stty size; read x; echo got $x; exit 7"
    )
    held.start("sh", "-c", script)
    held.sit()
    held.shows(b"ready")
    held.type("\x03")
    held.shows(b"caught")
    held.type("hello\r")
    held.shows(b"got hello")
    held.shows(b"SITS over")
    assert held.ended() == 7
    assert held.job is not None
    assert held.job.stdout is not None
    assert b"got hello" in held.job.stdout.read()  # the job's log has it too


def test_who_leaves_comes_back_and_sees_what_was_there(held: Held) -> None:
    held.start("sh", "-c", "echo first words; read x; echo $x")
    held.sit()
    held.shows(b"first words")
    held.type("\x1dd")
    held.shows(b"SITS left")
    os.close(held.terminal)
    os.waitpid(held.sitting, 0)
    held.seen = b""
    held.sit()
    held.shows(b"first words")
    held.type("again\r")
    held.shows(b"SITS over")
    assert held.ended() == 0


@pytest.mark.parametrize("keep", [False, True])
def test_a_terminal_that_is_lost_ends_the_job_unless_it_is_kept(held: Held, keep: bool) -> None:
    held.start("sh", "-c", "echo ready; read x; exit 3", keep=keep)
    held.sit()
    held.shows(b"ready")
    os.kill(held.sitting, signal.SIGKILL)
    os.waitpid(held.sitting, 0)
    held.sitting = 0
    if not keep:
        assert held.ended() == -signal.SIGHUP
        return
    os.close(held.terminal)
    held.sit()
    held.type("\r")
    assert held.ended() == 3


def test_what_is_piped_in_is_read_to_its_end(held: Held) -> None:
    held.start("sh", "-c", "cat; exit 4", pipe=True)
    line = seat.reach(held.name, None, lambda: False)
    assert line is not None
    with line:
        line.sendall(frames.frame(frames.DATA, b"one\n") + frames.frame(frames.END))
        assert held.ended() == 4
    assert held.job is not None
    assert held.job.stdout is not None
    assert held.job.stdout.read() == b"one\n"


def test_a_cancelled_shell_ends_though_it_minds_no_term(held: Held) -> None:
    held.start("bash", "--norc", "-i", keep=True)
    held.sit()
    held.type("echo $((40 + 2))\r")
    held.shows(b"42")
    assert held.job is not None
    held.job.terminate()
    assert held.ended() in (-signal.SIGHUP, 129)


def test_a_command_that_is_not_there_ends_as_in_a_shell(held: Held) -> None:
    assert held.start("no-such-program").ended() == 127


def test_another_user_may_not_sit_there(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    held.start("cat", keep=True)
    line = seat.reach(held.name, None, lambda: False)
    assert line is not None
    line.close()
    monkeypatch.setattr(processes, "uid_of", lambda _: 4321)
    with pytest.raises(seat.NoTerminal, match="answers instead"):
        seat.reach(held.name, 1, lambda: False)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(seat.NoTerminal, match="only they and root"):
        seat.reach(held.name, None, lambda: False)
    assert not doors.is_allowed(54321)
