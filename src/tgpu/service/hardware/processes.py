"""Processes on GPUs: their facts from the kernel, and the jobs they belong to."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from pathlib import Path
from signal import Signals
from typing import Final

import psutil

from tgpu.core.capacity.ledger import NodeUse
from tgpu.core.model.ids import JobId
from tgpu.core.state.cluster_state import State
from tgpu.engines.api import AttemptKey, JobMark
from tgpu.service.attempt_key import current_key

_NOBODY: Final[Mapping[int, "Who"]] = {}


@dataclass(frozen=True, slots=True)
class Who:
    """A process. What the kernel does not tell us is None."""

    pid: int
    user: str | None = None
    command: str | None = None
    started_at: int | None = None  # ms since the epoch; None: we cannot see this process at all
    ancestors: tuple[int, ...] = ()  # the nearest first
    mark: JobMark | None = None

    @property
    def is_seen(self) -> bool:
        return self.started_at is not None


class Belongs(Enum):
    """Whose a process on a GPU is."""

    OURS = auto()  # of a job that has this GPU
    SURVIVOR = auto()  # of an attempt of ours that is over
    FOREIGN = auto()
    UNSEEN = auto()  # in another container: nobody can say


@dataclass(frozen=True, slots=True)
class Claimed:
    belongs: Belongs
    key: AttemptKey | None = None


def look_up(pids: Iterable[int], known: Mapping[int, Who] = _NOBODY) -> dict[int, Who]:
    """Blocks for as long as /proc takes, some tenths of a millisecond each.

    Where the kernel does not tell now, a process is who it was when it was `known` last.
    """
    return {pid: _who(pid, known.get(pid)) for pid in sorted(set(pids))}


def is_same(who: Who) -> bool:
    """Whether this very process may still run; one that only waits to be counted does not.

    Only what is known to be gone is: else a GPU would be free because we could not look.
    """
    return _is_same(who) is not False


def send(who: Who, number: Signals) -> bool:
    """Signal exactly this process; False if it is gone or not ours to signal."""
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


@dataclass(slots=True)
class Ownership:
    """Tells whose a process is, and remembers: one that outlives its job loses its ancestors."""

    # The folder of an attempt's logs. A process that carries the number of one of our jobs and
    # another folder belongs to another service on this machine.
    log_dir: Callable[[AttemptKey], str | None] = lambda key: None
    # Attempts that run and that this database does not know: nobody of ours ends them.
    strangers: Callable[[], Collection[AttemptKey]] = lambda: ()
    _seen: dict[tuple[int, int], AttemptKey] = field(default_factory=dict)
    _jobs: dict[int, tuple[AttemptKey, bool]] = field(default_factory=dict)  # by pid; if a lease

    def begin(self, state: State, whos: Mapping[int, Who]) -> None:
        """Before the processes of a reading are claimed."""
        there = {(who.pid, who.started_at) for who in whos.values()}
        self._seen = {name: key for name, key in self._seen.items() if name in there}
        self._jobs = {
            entry.progress.pid: (current_key(entry), entry.job.options.lease)
            for entry in (state.placed() if whos else ())
            if entry.progress.pid is not None
        }

    def claim(self, state: State, use: NodeUse, gpu_index: int, who: Who) -> Claimed:
        """Whose a process on this GPU is."""
        key = self._attempt_of(who)
        if key is not None and key in self.strangers():
            return Claimed(Belongs.FOREIGN)
        if key is not None:
            return self._of_attempt(state, use, gpu_index, key)
        lease = self._lease_of(state, use, gpu_index, who)
        if lease is not None:
            return Claimed(Belongs.OURS, lease)
        return Claimed(Belongs.FOREIGN if who.is_seen else Belongs.UNSEEN)

    @staticmethod
    def _of_attempt(state: State, use: NodeUse, gpu_index: int, key: AttemptKey) -> Claimed:
        entry = state.entry(JobId(key.job_id))
        placement = entry.progress.placement if entry is not None else None
        if entry is None or placement is None or current_key(entry) != key:
            return Claimed(Belongs.SURVIVOR, key)
        ours = (use.node.node_id, gpu_index) in placement.gpus()
        return Claimed(Belongs.OURS if ours else Belongs.FOREIGN, key)

    def _attempt_of(self, who: Who) -> AttemptKey | None:
        if who.started_at is None:
            return None
        name = (who.pid, who.started_at)
        if (known := self._seen.get(name)) is not None:
            return known
        key, is_lease = self._below_a_job(who)
        if key is None and who.mark is not None:
            folder = self.log_dir(who.mark.key)
            # The workers of a gang have folders of their own in it.
            if folder and f"{who.mark.log_dir}/".startswith(f"{folder}/"):
                key = who.mark.key
        if key is not None and not is_lease:  # what a lease's holder runs is theirs to end
            self._seen[name] = key
        return key

    def _below_a_job(self, who: Who) -> tuple[AttemptKey | None, bool]:
        lineage = (who.pid, *who.ancestors)
        return next((self._jobs[pid] for pid in lineage if pid in self._jobs), (None, False))

    @staticmethod
    def _lease_of(state: State, use: NodeUse, gpu_index: int, who: Who) -> AttemptKey | None:
        """A lease's holder starts programs by hand: what this user runs there belongs to it."""
        for job_id in sorted(use.holdings):
            holding = use.holdings[job_id]
            options = holding.job.options
            if not options.lease or options.user not in ("", who.user):
                continue
            if (use.node.node_id, gpu_index) in holding.placement.gpus():
                entry = state.entry(job_id)
                if entry is not None and entry.progress.pid is None:
                    return current_key(entry)
        return None


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
