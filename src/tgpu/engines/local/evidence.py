"""Collects evidence about failed attempts: the ends of their logs, kernel messages.

All of it may be missing or unreadable; then less is known, and nothing else goes wrong.
"""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tgpu.core.model.cause import NO_EVIDENCE, Evidence, KernelKill
from tgpu.engines.api import AttemptKey, Observation, Phase
from tgpu.engines.attempt_files import OUT_OF_MEMORY, READ, read_piece
from tgpu.engines.file_reads import FileReads, ReadTimedOut

_TAIL_BYTES: Final = 16_384  # a traceback of PyTorch with what it says of memory has less
_KERNEL_RECORDS: Final = 20_000  # more than the kernel's ring holds
_KILLED: Final = 137
_KERNEL: Final = ":kernel"  # in the place of a job's id, which never looks like this
# "Out of memory: Killed process 4711 (python) …", "Memory cgroup out of memory: Killed process …"
_KILL: Final = re.compile(rb"^\d+,\d+,(\d+),[^;]*;(.*[Oo]ut of memory: Killed process (\d+).*)")


async def gather(
    find: Callable[[AttemptKey], str],
    batch: Sequence[Observation],
    reads: FileReads,
    kernel_log: Path = Path("/dev/kmsg"),
) -> Mapping[AttemptKey, Evidence]:
    """By attempt, for those that ended by themselves and not well."""
    failed = [seen for seen in batch if _has_failed(seen)]
    if not failed:
        return {}
    kills: tuple[KernelKill, ...] = ()
    if any(seen.exit_code == _KILLED for seen in failed):
        with contextlib.suppress(ReadTimedOut):
            kills = await reads.read(_KERNEL, lambda: kernel_kills(kernel_log))
    # Each for itself: files that do not answer must not keep those of others from being read.
    told = await asyncio.gather(*(_of_one(find, seen, kills, reads) for seen in failed))
    pairs = zip(failed, told, strict=True)
    return {seen.key: found for seen, found in pairs if found != NO_EVIDENCE}


def _has_failed(seen: Observation) -> bool:
    return seen.phase is Phase.EXITED and seen.cause is None and seen.exit_code != 0


async def _of_one(
    find: Callable[[AttemptKey], str],
    seen: Observation,
    kills: tuple[KernelKill, ...],
    reads: FileReads,
) -> Evidence:
    own = kills if seen.exit_code == _KILLED else ()

    def read() -> tuple[str, int | None]:
        directory = find(seen.key)
        return log_tail(directory), limit_reached(directory)

    try:
        tail, limit = await reads.read(seen.key.job_id, read)
    except ReadTimedOut:
        return Evidence("", own, None)
    return Evidence(tail, own, limit)


def log_tail(directory: str) -> str:
    """The end of what it wrote, errors last: that is where programs say why they end."""
    return "\n".join(_tail(directory, name) for name in ("stdout.log", "stderr.log"))


def limit_reached(directory: str) -> int | None:
    """The memory limit in bytes that the engine says an attempt was ended for."""
    text = _tail(directory, OUT_OF_MEMORY).strip()
    return int(text) if text.isdecimal() else None


def _tail(directory: str, name: str) -> str:
    try:
        return read_piece(directory, name, -_TAIL_BYTES, _TAIL_BYTES).data.decode(errors="replace")
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
        descriptor = os.open(path, READ)
    except OSError:
        return records
    # Each read is one record; at the end of what there is, the kernel says that it would block.
    with contextlib.suppress(OSError):
        while len(records) < _KERNEL_RECORDS and (record := os.read(descriptor, 8192)):
            records += record.splitlines()
    os.close(descriptor)
    return records
