"""Starts and stops the service of one user in the background.

Two commands at once start only one: a lock file is held from the last look to the first answer.
"""

import contextlib
import fcntl
import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tgpu.client.errors import ClientError, NoService, StartFailed
from tgpu.client.http import Client
from tgpu.client.personal import PersonalService
from tgpu.text.system_words import system_words
from tgpu.wire.v1 import Health

# A cold NVIDIA driver takes up to a minute for 16 GPUs; nobody should wait longer unasked.
_READY_SECONDS: Final = 90.0
_STOP_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.05
_TAIL_BYTES: Final = 4000


def find_running(service: PersonalService, timeout_seconds: float = 5.0) -> Health | None:
    """The health of the service that answers for this user, or None."""
    with Client(service.target(), timeout_seconds=timeout_seconds) as client:
        try:
            return client.health()
        except NoService:
            return None


def ensure_running(service: PersonalService, serve_options: Sequence[str] = ()) -> Health | None:
    """Start the service unless it answers. Returns its health if this call started it.

    Raises StartFailed with the end of its log when it does not come up.
    """
    if _wait_if_starting(service) is not None:
        return None
    _make_private(service.data_dir)
    with _locked(service.start_lock):
        if _wait_if_starting(service) is not None:
            return None
        return _start(service, serve_options)


def stop_running(service: PersonalService) -> Health | None:
    """End the service with SIGTERM and wait for its end; None when none runs.

    Only a process that answers as our service, with the pid of service.json, gets a signal.
    """
    announced = service.announcement()
    if announced is None:
        return None
    try:
        process = os.pidfd_open(announced.pid)
    except ProcessLookupError:
        return None
    # The descriptor names this very process: a pid that is given away meanwhile does not matter.
    try:
        health = find_running(service)
        if health is None:
            return None
        if health.pid != announced.pid:
            raise StartFailed(
                f"{service.announcement_file} names process {announced.pid}, "
                f"but process {health.pid} answers: nothing was stopped"
            )
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGTERM)
        if not _ended(process, _STOP_SECONDS):
            raise StartFailed(
                f"the scheduler (pid {health.pid}) still ends after {_STOP_SECONDS:g} s",
                _tail(service.log_file),
            )
        return health
    finally:
        os.close(process)


def _wait_if_starting(service: PersonalService) -> Health | None:
    """As find_running, but a service that someone else just started gets its time."""
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        try:
            return find_running(service)
        except ClientError as error:
            if error.code != "SERVICE_NOT_READY" or time.monotonic() >= deadline:
                raise
        time.sleep(_LOOK_SECONDS)


def _start(service: PersonalService, serve_options: Sequence[str]) -> Health:
    _make_private(service.socket.parent)
    begin = service.log_file.stat().st_size if service.log_file.exists() else 0
    process = _spawn(service, serve_options)
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        code = process.poll()
        if code is not None:
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise StartFailed(
                f"the scheduler ended at once ({ended})", _tail(service.log_file, begin)
            )
        health = _answer(service, process.pid)
        if health is not None:
            return health
        time.sleep(_LOOK_SECONDS)
    process.terminate()
    raise StartFailed(
        f"the scheduler was not ready after {_READY_SECONDS:g} s", _tail(service.log_file, begin)
    )


def _answer(service: PersonalService, pid: int) -> Health | None:
    """The answer of the process that we started; one left over from before does not count."""
    try:
        health = find_running(service, timeout_seconds=2.0)
    except ClientError:
        return None  # it listens, but is not ready
    return health if health is not None and health.pid == pid else None


def _spawn(service: PersonalService, serve_options: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tgpu", "serve"]
    command += ["--socket", str(service.socket), "--data-dir", str(service.data_dir)]
    # Readable by its owner only: job commands and paths stand in it.
    log = os.open(service.log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        return subprocess.Popen(
            [*command, *serve_options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Its own session: closing the terminal must not end it. The root directory: it must
            # not keep the submitter's file system busy.
            start_new_session=True,
            cwd="/",
        )
    finally:
        os.close(log)


def _ended(process: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_private(directory: Path) -> None:
    """Make a directory that is ours and closed to others; StartFailed where it cannot be."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except OSError as error:
        raise StartFailed(f"cannot use {directory}: {system_words(error)}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StartFailed(f"{directory} belongs to another user, so it is not safe to use")
    # Whoever may enter the directory may reach the socket in it.
    if found.st_mode & 0o077:
        directory.chmod(0o700)


def _tail(log: Path, begin: int = 0) -> str:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(begin, size - _TAIL_BYTES))
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""
