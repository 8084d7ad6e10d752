"""The processes of this machine, as its kernel tells of them."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from signal import Signals
from typing import Final

import psutil

from tgpu.devices.host import boot_id
from tgpu.engines.api import AttemptKey, JobMark
from tgpu.engines.node_processes import Boot, Who

_NOBODY: Final[Mapping[int, Who]] = {}


class LocalProcesses:
    """A `NodeProcesses` of the machine that this runs on."""

    async def look_up(
        self, pids: Iterable[int], known: Mapping[int, Who] = _NOBODY
    ) -> dict[int, Who]:
        return await asyncio.to_thread(look_up, pids, known)

    def may_run(self, who: Who) -> bool:
        return is_same(who)

    async def send(self, who: Who, number: Signals) -> bool:
        return send(who, number)

    async def boot(self) -> Boot:
        return Boot(boot_id(), booted_at())


def look_up(pids: Iterable[int], known: Mapping[int, Who] = _NOBODY) -> dict[int, Who]:
    """Blocks for as long as /proc takes, some tenths of a millisecond each."""
    return {pid: _who(pid, known.get(pid)) for pid in sorted(set(pids))}


def is_same(who: Who) -> bool:
    """One that only waits to be counted is over."""
    return _is_same(who) is not False


def send(who: Who, number: Signals) -> bool:
    if who.pid == os.getpid() or not _is_same(who):
        return False
    try:
        psutil.Process(who.pid).send_signal(number)  # checks once more that it is the same
    except (psutil.Error, OSError, ValueError):
        return False
    return True


def _is_same(who: Who) -> bool | None:
    """None where the kernel does not tell."""
    try:
        found = psutil.Process(who.pid)
        return _started_at(found) == who.started_at and not _is_over(found)
    except (psutil.NoSuchProcess, ValueError):
        return False
    except (psutil.Error, OSError):
        return None


def _is_over(process: psutil.Process) -> bool:
    """A zombie, unless threads go on that outlived the first one."""
    return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1


def _who(pid: int, known: Who | None) -> Who:
    try:
        found = psutil.Process(pid)
        with found.oneshot():
            if _is_over(found):
                return Who(pid)
            return Who(
                pid,
                user=found.username(),
                command=found.name(),
                started_at=_started_at(found),
                ancestors=tuple(parent.pid for parent in found.parents()),
                mark=_mark(found),
            )
    except (psutil.NoSuchProcess, ValueError):
        return Who(pid)
    except (psutil.Error, OSError):
        return known or Who(pid)


def _started_at(process: psutil.Process) -> int:
    return booted_at() + _born_ms(process.pid)


@cache
def booted_at() -> int:
    """Once and for all: it changes when the clock is set, and a process stays the same."""
    return round(psutil.boot_time() * 1000)


def _born_ms(pid: int) -> int:
    """When the kernel made it, since the machine was started."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise psutil.NoSuchProcess(pid) from error
    return int(stat.rpartition(b")")[2].split()[19]) * 1000 // os.sysconf("SC_CLK_TCK")


def _mark(process: psutil.Process) -> JobMark | None:
    try:
        env = process.environ()
        attempt = int(env["TGPU_ATTEMPT"])
    except (psutil.Error, KeyError, ValueError):
        return None  # not marked, or another user's: that is none of our business
    job_id, log_dir = env.get("TGPU_JOB_ID", ""), env.get("TGPU_LOG_DIR", "")
    key = AttemptKey(job_id, attempt, env.get("TGPU_JOB_UUID", ""))
    return JobMark(key, log_dir) if job_id and log_dir else None
