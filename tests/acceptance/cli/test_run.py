"""`tgpu run` at a real terminal, with a real service."""

import os
import pty
import select
import subprocess
import time

from tests.acceptance.cli.conftest import Box

_SECONDS = 40.0


class Sitting:
    """Somebody at a terminal who runs a command."""

    def __init__(self, box: Box, *words: str) -> None:
        self.terminal, inside = pty.openpty()
        self.seen = b""
        self.process = subprocess.Popen(
            box.command(*words),
            cwd=box.root,
            env=box.environ | {"TERM": "dumb", "SHELL": "/bin/sh"},
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
        os.close(inside)

    def shows(self, words: bytes) -> None:
        until = time.monotonic() + _SECONDS
        while words not in self.seen:
            assert time.monotonic() < until, self.seen
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.seen += os.read(self.terminal, 65536)

    def type(self, text: bytes) -> None:
        os.write(self.terminal, text)

    def ends(self) -> int:
        code = self.process.wait(_SECONDS)
        os.close(self.terminal)
        return code


def test_somebody_works_in_a_job_leaves_it_and_comes_back(box: Box) -> None:
    works = Sitting(box, "run", "--gpus", "4")
    works.shows(b"Ctrl-] d detaches")
    works.type(b"echo gpus=$CUDA_VISIBLE_DEVICES job=$TGPU_JOB_ID\r")
    works.shows(b"gpus=0,1,2,3 job=1")
    works.type(b"\x1dd")
    works.shows(b"job 1 continues")
    assert works.ends() == 0
    waits = Sitting(box, "run", "--gpus", "1", "--", "true")
    waits.shows(b"job 2 waits")
    os.kill(waits.process.pid, 2)  # Ctrl-C
    waits.shows(b"job 2 cancelled")
    assert waits.ends() == 130
    back = Sitting(box, "attach", "1")
    back.shows(b"gpus=0,1,2,3")
    back.type(b"exit 6\r")
    assert back.ends() == 6
    assert "cancelled" in box.ok("list", "--all")
