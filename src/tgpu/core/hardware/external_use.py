"""External use: whether other programs use so much of a GPU that it takes no new jobs."""

from dataclasses import dataclass
from typing import Final

_WHOLE: Final = 1000  # thousandths
_MARGIN_MILLIS: Final = 100  # below a threshold by this much before a GPU is free again


@dataclass(frozen=True, slots=True)
class ExternalUseRules:
    """From these parts of its memory or its time on, in thousandths, a GPU is taken."""

    memory_millis: int = 800
    load_millis: int = 800
    # A training process rests between batches: its load must stay low for this long.
    quiet_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class ExternalUse:
    """What one reading tells of one GPU. None: the driver does not tell."""

    memory_mib: int  # of the GPU
    pids: tuple[int, ...] = ()  # processes that are not ours
    held_mib: int | None = None  # by these processes
    load_percent: int | None = None  # by these processes
    # All of the GPU's use, whoever it is. Counts only where no job of ours was on it at this
    # reading or the one before: a driver's load is an average that outlives the job.
    ours: bool = False
    used_mib: int | None = None
    busy_percent: int | None = None


@dataclass(frozen=True, slots=True)
class ExternalUseWatch:
    """What is remembered of a GPU from reading to reading."""

    taken: bool = False
    pids: tuple[int, ...] = ()
    ours: bool = False  # at the last reading
    quiet_since: int | None = None


def watch_external_use(
    before: ExternalUseWatch, use: ExternalUse, now: int, rules: ExternalUseRules
) -> ExternalUseWatch:
    """The GPU is taken from a threshold on, and free again once clearly and lastingly below."""
    counted = not (use.ours or before.ours)
    memory = _most(use.held_mib, use.used_mib if counted else None) * _WHOLE
    load = _most(use.load_percent, use.busy_percent if counted else None) * (_WHOLE // 100)
    full = rules.memory_millis * use.memory_mib
    if (use.memory_mib > 0 and memory >= full) or load >= rules.load_millis:
        return ExternalUseWatch(True, use.pids, use.ours)
    if not before.taken:
        return ExternalUseWatch(False, use.pids, use.ours)
    if use.memory_mib > 0 and memory >= full - _MARGIN_MILLIS * use.memory_mib:
        return ExternalUseWatch(True, use.pids, use.ours)
    if not use.pids:
        return ExternalUseWatch(False, (), use.ours)
    quiet_since = now if before.quiet_since is None else before.quiet_since
    if load >= rules.load_millis - _MARGIN_MILLIS:
        quiet_since = now
    still = now - quiet_since < rules.quiet_ms
    return ExternalUseWatch(still, use.pids, use.ours, quiet_since if still else None)


def _most(*amounts: int | None) -> int:
    return max((amount for amount in amounts if amount is not None), default=0)
