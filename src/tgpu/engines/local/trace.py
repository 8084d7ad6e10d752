"""Whether a process comes from a supervisor or runner of one directory, and of which attempt it is.

Supervisor and runner are the parents of all that a job leaves behind, as long as one of them lives.
A runner holds the directory of its attempt open, as a lock; that is how it is known.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tgpu.engines.api import AttemptKey, Traced
from tgpu.engines.local.descriptors import SCARCE
from tgpu.engines.local.paths import JOBS

_RUNNER: Final = b"tgpu-runner"
_UNKNOWN: Final = b"?"
_NAMES: Final = (b"tgpu-supervisor", _RUNNER)


def trace(directory: Path, pids: Sequence[int], supervisor: int | None) -> Traced:
    """`pids` are the process and its ancestors, the nearest first."""
    folders = {str(directory), os.path.realpath(directory)}
    is_ours = False
    for pid in pids:
        name = _our_name(pid, folders)
        if name == _RUNNER:
            return Traced(True, _attempt_of(pid, folders))
        is_ours = is_ours or name is not None or pid == supervisor
    return Traced(is_ours)


def _our_name(pid: int, folders: set[str]) -> bytes | None:
    """By its command line: a runner outlives its supervisor, and the next has another number."""
    try:
        name = Path(f"/proc/{pid}/comm").read_bytes().strip()
        if name not in _NAMES:
            return None
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError as error:
        # Without descriptors nobody can say that it is none of ours, and rights hang on that.
        return _UNKNOWN if error.errno in SCARCE else None
    return name if any(os.fsencode(f"--dir={folder}") in words for folder in folders) else None


def _attempt_of(runner: int, folders: set[str]) -> AttemptKey | None:
    for target in _open_files(runner):
        head, _, attempt = target.rpartition("/")
        head, _, job_id = head.rpartition("/")
        if attempt.isdigit() and head in {f"{folder}/{JOBS}" for folder in folders}:
            return AttemptKey(job_id, int(attempt))
    return None


def _open_files(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{name}")
