"""Processes of this machine by their numbers."""

import os
import subprocess
import sys
from pathlib import Path

from tgpu.host.processes import lives, uid_of, with_argument


def test_a_process_that_ended_and_was_not_looked_at_does_not_live() -> None:
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # over, and still a zombie
    assert Path(f"/proc/{ended.pid}").exists()
    assert not lives(ended.pid)
    ended.wait()
    assert not lives(ended.pid)
    assert lives(os.getpid())


def test_a_process_is_its_user_s_and_one_that_is_over_nobody_s() -> None:
    assert uid_of(os.getpid()) == os.geteuid()
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert uid_of(ended.pid) is None


def test_a_process_is_found_by_a_whole_word_of_its_command_line() -> None:
    word = f"--mark={os.getpid()}-x y"
    wait = "import sys; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", wait, word], stdin=subprocess.PIPE) as marked:
        assert list(with_argument(word)) == [marked.pid]
        assert list(with_argument(word[:-1])) == []
