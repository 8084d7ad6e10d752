"""The files of one attempt that say who runs it and how it ended.

A runner takes a lock on the attempt's directory, then creates the claim, then starts the command.
So: a claim without a held lock means that its runner is gone; no claim means that nothing was
started, and whoever creates the claim decides whether anything ever will be.
"""

import contextlib
import fcntl
import json
import os
from typing import Any, NamedTuple

from gpu_scheduler.engines.local.paths import CLAIM, EXIT

_CREATE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC


class Claim(NamedTuple):
    runner: int = 0  # 0: the claim is void, or its writer died before it could say
    runner_start: int = 0
    boot: str = ""
    void: bool = False
    main: int = 0  # the command's own process, 0 until it is known
    main_start: int = 0
    started_at: int = 0


class Exit(NamedTuple):
    exit_code: int | None = None
    signal: int | None = None
    ended_at: int = 0
    gone_at: int | None = None  # None while processes it left behind may still run
    user_cpu_ms: int = 0
    system_cpu_ms: int = 0
    max_rss_kib: int = 0
    not_started: str | None = None  # why the command was never started
    retry: bool = True  # whether another try could fare better


def open_directory(path: str) -> int:
    """Make the attempt's directory where it is missing; a descriptor of it."""
    try:
        os.mkdir(path, 0o700)
    except FileNotFoundError:
        # Not makedirs, which opens the directories on the way to everybody.
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.dirname(path), 0o700)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def create_claim(directory: int) -> int | None:
    """A descriptor of the new claim, or None where somebody else has it."""
    try:
        return os.open(CLAIM, _CREATE, 0o600, dir_fd=directory)
    except FileExistsError:
        return None


def claim_void(path: str) -> bool:
    """Make sure that an attempt that was not started never is. False: it is already claimed."""
    directory = open_directory(path)
    try:
        claim = create_claim(directory)
        if claim is None:
            return False
        try:
            os.write(claim, b'{"void":true}\n')
        finally:
            os.close(claim)
        return True
    finally:
        os.close(directory)


def is_locked(path: str) -> bool:
    """Whether a live runner has this attempt. Not fooled by pids that are used again."""
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(directory)
    return False


def read_claim(path: str) -> Claim | None:
    """None where nobody claimed the attempt. A line cut short counts as not written."""
    try:
        with open(f"{path}/{CLAIM}", "rb") as file:
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return None
    fields: dict[str, Any] = {}
    for line in lines:
        fields.update(_object(line))
    return Claim(**{name: fields[name] for name in Claim._fields if name in fields})


def read_exit(path: str) -> Exit | None:
    try:
        with open(f"{path}/{EXIT}", "rb") as file:
            fields = _object(file.read())
    except FileNotFoundError:
        return None
    if not fields:
        return None
    return Exit(**{name: fields[name] for name in Exit._fields if name in fields})


def write_exit(directory: int, record: Exit) -> None:
    """Replace the exit record in one step: a reader sees the old one or the new one, whole."""
    text = json.dumps(record._asdict(), separators=(",", ":")).encode()
    fd = os.open(
        EXIT + ".new",
        os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC,
        0o600,
        dir_fd=directory,
    )
    try:
        os.write(fd, text)
    finally:
        os.close(fd)
    os.rename(EXIT + ".new", EXIT, src_dir_fd=directory, dst_dir_fd=directory)


def _object(text: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
