"""Starts a program that serves, waits until it does, and ends it with the tests."""

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 30.0
STOP_SECONDS = 20.0
_PR_SET_PDEATHSIG = 1


class CannotStart(Exception):
    """Why a server is not to be had here. Tests that need it are skipped with these words."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def some_user(*names: str) -> pwd.struct_passwd | None:
    """As root, the first of these users that there is: some servers refuse to run as root."""
    if os.geteuid() != 0:
        return None
    for name in names:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise CannotStart(f"runs as root, and there is none of the users {', '.join(names)}")


def new_folder(user: pwd.struct_passwd | None) -> Path:
    """Short, for Unix sockets, and not in pytest's folder, which other users cannot enter."""
    folder = Path(tempfile.mkdtemp(prefix="tgpu-"))
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    return folder


@dataclass
class Program:
    """One server in a folder of its own. Start, stop and start again as a test needs it."""

    folder: Path
    user: pwd.struct_passwd | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def run(self, command: Sequence[str | Path]) -> None:
        """A command that ends, as this server's user."""
        try:
            result = subprocess.run(
                command,
                cwd=self.folder,
                capture_output=True,
                text=True,
                check=False,
                **self._as_user(),
            )
        except OSError as error:  # such as a folder that the server's user may not enter
            raise CannotStart(f"{command[0]}: {error.strerror}") from error
        if result.returncode:
            raise CannotStart(f"{command[0]}: {(result.stderr or result.stdout).strip()}")

    def start(self, command: Sequence[str | Path], answers: Callable[[], bool]) -> None:
        log = self.folder / "server.log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the tests, which end it in their order
                preexec_fn=_end_with_parent,
                **self._as_user(),
            )
        deadline = time.monotonic() + START_SECONDS
        while not answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop(signal.SIGKILL)
                raise CannotStart(f"{command[0]}: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _as_user(self) -> dict:
        if self.user is None:
            return {}
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}


def _end_with_parent() -> None:
    """Tests that are killed leave no server behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
