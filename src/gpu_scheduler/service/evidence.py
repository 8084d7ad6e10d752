"""Gathers what there is to know of attempts that failed: the ends of their logs, kernel messages.

All of it may be missing or unreadable; then less is known, and nothing else goes wrong.
"""

import asyncio
import contextlib
import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gpu_scheduler.core.cause import NO_EVIDENCE, Evidence, KernelKill
from gpu_scheduler.engines.api import OUT_OF_MEMORY, AttemptKey, Engine, Observation, Phase

_TAIL_BYTES: Final = 16_384  # a traceback of PyTorch with what it says of memory has less
_KERNEL_RECORDS: Final = 20_000  # more than the kernel's ring holds
_KILLED: Final = 137
# A job may have put a pipe where its log was: nobody waits for what never comes.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
# "Out of memory: Killed process 4711 (python) …", "Memory cgroup out of memory: Killed process …"
_KILL: Final = re.compile(rb"^\d+,\d+,(\d+),[^;]*;(.*[Oo]ut of memory: Killed process (\d+).*)")


async def gather(
    engine: Engine, batch: Sequence[Observation], kernel_log: Path = Path("/dev/kmsg")
) -> Mapping[AttemptKey, Evidence]:
    """By attempt, for those that ended by themselves and not well."""
    failed = [seen for seen in batch if _has_failed(seen)]
    if not failed:
        return {}
    return await asyncio.to_thread(_gather, engine, failed, kernel_log)


def _has_failed(seen: Observation) -> bool:
    return seen.phase is Phase.EXITED and seen.cause is None and seen.exit_code != 0


def _gather(
    engine: Engine, failed: Sequence[Observation], kernel_log: Path
) -> dict[AttemptKey, Evidence]:
    killed = any(seen.exit_code == _KILLED for seen in failed)
    kills = kernel_kills(kernel_log) if killed else ()
    found = {}
    for seen in failed:
        directory = engine.log_dir(seen.key)
        tail = "" if directory is None else log_tail(Path(directory))
        limit = None if directory is None else limit_reached(Path(directory))
        evidence = Evidence(tail, kills if seen.exit_code == _KILLED else (), limit)
        if evidence != NO_EVIDENCE:
            found[seen.key] = evidence
    return found


def log_tail(directory: Path) -> str:
    """The end of what it wrote, errors last: that is where programs say why they end."""
    return "\n".join(_tail(directory / name) for name in ("stdout.log", "stderr.log"))


def limit_reached(directory: Path) -> int | None:
    """The memory limit in bytes that the engine says an attempt was ended for."""
    text = _tail(directory / OUT_OF_MEMORY).strip()
    return int(text) if text.isdecimal() else None


def _tail(path: Path) -> str:
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return ""
            file.seek(max(0, status.st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""


def kernel_kills(path: Path) -> tuple[KernelKill, ...]:
    """Whom the kernel killed for want of memory, as far as we may read its messages."""
    now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    found = []
    for record in _kernel_records(path):
        match = _KILL.match(record)
        if match is not None:
            ago_ms = max(0, now_us - int(match[1])) // 1000
            text = match[2].decode(errors="replace")
            found.append(KernelKill(int(match[3]), ago_ms, text))
    return tuple(found)


def _kernel_records(path: Path) -> list[bytes]:
    records: list[bytes] = []
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return records
    # Each read is one record; at the end of what there is, the kernel says that it would block.
    with contextlib.suppress(OSError):
        while len(records) < _KERNEL_RECORDS and (record := os.read(descriptor, 8192)):
            records += record.splitlines()
    os.close(descriptor)
    return records
