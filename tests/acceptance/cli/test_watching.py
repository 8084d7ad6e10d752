"""Watching and pausing against the real service, and `tgpu top` on a real terminal."""

import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time

import pytest

from tests.acceptance.cli.conftest import Box
from tests.real_service import eventually


def test_status_metrics_and_health_of_a_running_service(shared_box: Box) -> None:
    box = shared_box
    box.ok("submit", "--wait", "-q", "--", "true")
    box.ok("submit", "-q", "--gpus", "2", "--name", "long", "--", "sleep", "600")
    eventually(lambda: "Running jobs: 1" in box.ok("status", "--detailed"), "the job to run")
    detailed = box.ok("status", "--detailed")
    assert " long " in detailed
    assert detailed.count(" 100% ") == 2
    assert "health     healthy" in detailed
    assert len(json.loads(box.ok("status", "--json"))["resources"]["gpus"]) == 4
    assert "run time  0." in box.ok("metrics")
    assert json.loads(box.ok("health", "--json"))["status"] == "healthy"
    box.ok("cancel", "last")
    box.tgpu("wait", "last")


def test_a_drained_node_keeps_jobs_waiting_with_the_reason(shared_box: Box) -> None:
    box = shared_box
    uuid = json.loads(box.ok("gpus", "--json"))["gpus"][3]["uuid"]
    box.ok("pause-gpu", uuid, "--reason", "fan is loud")
    box.ok("drain", "--reason", "new driver")
    box.ok("submit", "-q", "--", "true")
    why = box.ok("why", "last")
    assert "4 paused (drained: new driver (by " in why
    assert "; fan is loud (by " in why
    assert "paused: drained: new driver" in box.ok("status", "--detailed")
    box.ok("drain", "--undo")
    assert box.tgpu("wait", "last").returncode == 0
    assert json.loads(box.ok("gpus", "--json"))["gpus"][3]["paused"].startswith("fan is loud")
    box.ok("resume-gpu", "3")


def test_list_jobs_and_cancel_job_are_list_and_cancel(shared_box: Box) -> None:
    box = shared_box
    box.ok("submit", "-q", "--name", "to-go", "--", "sleep", "600")
    running = ("list-jobs", "--status", "running")
    eventually(lambda: "to-go" in box.ok(*running), "the job to run")
    box.ok("cancel-job", "last")
    box.tgpu("wait", "last")
    assert "to-go" not in box.ok(*running)


class Screen:
    """A terminal of 80 by 24 with `tgpu top` in it."""

    def __init__(self, box: Box) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            box.command("top", "--interval", "1s"),
            env=box.environ | {"TERM": "xterm-256color"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = b""

    def until(self, text: str, seconds: float = 30) -> None:
        """Reads what it paints until the text is there."""
        deadline = time.monotonic() + seconds
        while text.encode() not in self.seen:
            assert time.monotonic() < deadline, f"no {text!r} in {self.seen[-3000:]!r}"
            self._read()

    def exit_code(self, seconds: float = 30) -> int:
        """Goes on reading: who paints for nobody cannot end."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it does not end"
            self._read()
        return self.process.returncode

    def _read(self) -> None:
        # A terminal whose program has gone says so by an error.
        with contextlib.suppress(OSError):
            if select.select([self.master], [], [], 0.2)[0]:
                self.seen += os.read(self.master, 65_536)

    def press(self, key: str) -> None:
        self.seen = b""
        os.write(self.master, key.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def test_top_shows_the_log_of_a_job_and_cancels_it(shared_box: Box) -> None:
    box = shared_box
    box.ok("submit", "-q", "--name", "talker", "--", "sh", "-c", "echo hello-there; sleep 600")
    screen = Screen(box)
    try:
        screen.until("talker")
        screen.until("hello-there")
        screen.press("c")
        screen.until("Cancel job")
        screen.press("y")
        eventually(
            lambda: json.loads(box.ok("show", "last", "--json"))["state"] == "cancelled",
            "the job to be cancelled",
        )
        screen.press("q")
        assert screen.exit_code() == 0
    finally:
        screen.close()


@pytest.mark.parametrize("words", [("top",), ("top", "--interval", "5")])
def test_top_in_a_pipe_or_with_a_bare_number_says_what_would_be_right(
    shared_box: Box, words: tuple[str, ...]
) -> None:
    run = shared_box.tgpu(*words)
    assert run.returncode == 2
    assert "tgpu status --watch" in run.stderr or "has no unit" in run.stderr
