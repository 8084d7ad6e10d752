"""`tgpu` as its users run it: processes, a data directory of their own, a service it starts."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_service import clean_environ, eventually, living, read_proc

_PATIENCE_SECONDS = 60


class Box:
    """One user's machine: everything happens below one directory, which ends with the test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data_dir = root / "share" / "tgpu"
        self.environ = {
            **clean_environ(),
            "XDG_DATA_HOME": str(root / "share"),
            "GPU_SCHEDULER_GPUS": "sim:4xA100",
        }

    def tgpu(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        run = subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=self.environ | environ,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        assert "Traceback" not in run.stderr, run.stderr
        return run

    def ok(self, *arguments: str, **environ: str) -> str:
        run = self.tgpu(*arguments, **environ)
        assert run.returncode == 0, f"{arguments}: {run.stdout}{run.stderr}"
        return run.stdout

    def start_process(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.root,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tgpu", *arguments]

    def services(self) -> list[int]:
        """Every service that runs on this box, by pid."""
        mark = f"--data-dir\0{self.data_dir}".encode()
        return [
            pid
            for pid in living()
            if mark in read_proc(pid, "cmdline") and b"\0serve\0" in read_proc(pid, "cmdline")
        ]

    def tear_down(self) -> None:
        mark = os.fsencode(self.root)

        def none_left() -> bool:
            left = [pid for pid in living() if mark in read_proc(pid, "cmdline", "environ")]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left

        eventually(none_left, "the processes of this box to end")
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture
def box() -> Iterator[Box]:
    # Not tmp_path: a Unix socket's path must be short.
    fresh = Box(Path(tempfile.mkdtemp(prefix="tgpu-")))
    try:
        yield fresh
    finally:
        fresh.tear_down()


@pytest.fixture(scope="module")
def shared_box() -> Iterator[Box]:
    """A box for tests that leave nothing behind which others would trip over."""
    shared = Box(Path(tempfile.mkdtemp(prefix="tgpu-")))
    try:
        shared.ok("start")
        yield shared
    finally:
        shared.tear_down()
