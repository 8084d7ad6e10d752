"""Ending as a command did, in processes of their own: nobody survives it to tell."""

import os
import signal
import subprocess
import sys

import pytest

from tgpu.stand_in import write_or_lose


def ended(words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", f"from tgpu.stand_in import *\nimport os, signal\n{words}"],
        capture_output=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("status", "code"), [(0, 0), (3 << 8, 3), (signal.SIGTERM, -signal.SIGTERM)]
)
def test_it_ends_as_the_command_did(status: int, code: int) -> None:
    assert ended(f"end_as({int(status)})").returncode == code


def test_what_it_says_stands_in_the_log() -> None:
    assert ended("say_in_log('the job goes on')").stderr == b"tgpu: the job goes on\n"


def test_signals_are_read_from_the_pipe() -> None:
    read = "woken = signal_pipe([signal.SIGUSR1, signal.SIGKILL])"
    done = ended(f"{read}\nos.kill(os.getpid(), signal.SIGUSR1)\nos.write(1, os.read(woken, 9))")
    assert (done.returncode, done.stdout) == (0, bytes([signal.SIGUSR1]))


def test_words_for_a_full_disk_are_lost_and_nothing_else() -> None:
    target = os.open("/dev/full", os.O_WRONLY)
    try:
        write_or_lose(target, b"lost")
    finally:
        os.close(target)
