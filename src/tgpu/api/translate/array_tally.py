"""Counts the jobs of an array by state, newest first."""

from collections import Counter
from decimal import Decimal
from itertools import islice

from tgpu.api.translate.shown import shown_detail
from tgpu.core.model.job import Detail
from tgpu.core.model.lifecycle import PLACED, TERMINAL, JobState, Progress
from tgpu.core.model.units import GPU, GPU_HOUR, SECOND, gpu_hours
from tgpu.store.api import StoredJob
from tgpu.text.instants import utc_millis_text
from tgpu.wire.arrays_v1 import ArraySummary

_MOST_FAILED = 100
_MOST_VALUES = 50  # of a parameter: each is looked through for secrets
_SIGNALLED = 128  # added to the number of a signal, as shells do
_CANCELLED = 143  # 128 + SIGTERM


class ArrayTally:
    def __init__(self, now: int) -> None:
        self._now = now
        self.total = 0
        self._states: Counter[JobState] = Counter()
        self._ends: Counter[str] = Counter()
        self._worst = 0
        self._failed: list[tuple[int, str]] = []
        self._indexes: list[int] = []
        self._params: dict[str, dict[str, Detail]] = {}  # by value, one that has it
        self._ran_ms = self._gpu_millis_ms = self._lost = 0
        self._started: list[int] = []
        self._ended: list[int] = []
        self._first: StoredJob | None = None
        self._next: StoredJob | None = None

    def add(self, stored: StoredJob) -> None:
        job, progress = stored.job, stored.progress
        self.total += 1
        self._first = stored
        self._states[progress.state] += 1
        index = 0 if job.array is None else job.array.index
        self._indexes.append(index)
        for name, value in stored.detail.params:
            self._params.setdefault(name, {})[value] = stored.detail
        if progress.state is JobState.PENDING:
            self._next = stored
        if progress.state is JobState.FAILED:
            self._failed.append((index, job.job_id))
        if progress.state in TERMINAL:
            self._end(progress)
        if progress.started_at is not None:
            self._started.append(progress.started_at)
        ran = self._ran(progress)
        self._ran_ms += ran
        self._gpu_millis_ms += ran * job.request.gpu_millis
        self._lost += progress.lost_gpu_millis_ms

    def _end(self, progress: Progress) -> None:
        if progress.ended_at is not None:
            self._ended.append(progress.ended_at)
        name, code = _ending(progress)
        self._ends[name] += 1
        self._worst = max(self._worst, code)

    def _ran(self, progress: Progress) -> int:
        """With GPUs, in all its attempts."""
        began, end = progress.started_at, progress.ended_at
        if began is None or not (progress.state in PLACED or progress.state in TERMINAL):
            return progress.ran_ms
        return progress.ran_ms + max(0, (self._now if end is None else end) - began)

    def summary(self, array_id: str, price: float) -> ArraySummary:
        first = self._first
        assert first is not None
        detail, array = shown_detail(first.detail), first.job.array
        failed = sorted(self._failed)
        is_over = all(state in TERMINAL for state in self._states)
        ended = max(self._ended, default=None) if is_over else None
        return ArraySummary(
            array_id=array_id,
            tenant_id=first.job.tenant_id,
            name=detail.name,
            user=detail.user or first.job.options.user,
            state=self._state(),
            is_over=is_over,
            total=self.total,
            states={str(state): self._states[state] for state in JobState if self._states[state]},
            indexes=ranges(self._indexes),
            max_running=None if array is None else array.max_running,
            command=list(detail.argv),
            params={name: _shown(name, values) for name, values in self._params.items()},
            gpu_count=first.job.request.gpu_millis / GPU,
            exit_codes=dict(sorted(self._ends.items())),
            exit_code=self._worst,
            failed=[job_id for _, job_id in failed[:_MOST_FAILED]],
            failed_indexes=ranges([index for index, _ in failed]),
            next_waiting=None if self._next is None else self._next.job.job_id,
            rerun_of=_array_of(first),
            submitted_at=utc_millis_text(first.job.submitted_at),
            started_at=utc_millis_text(min(self._started)) if self._started else None,
            ended_at=None if ended is None else utc_millis_text(ended),
            run_seconds=self._ran_ms / SECOND,
            gpu_hours=gpu_hours(self._gpu_millis_ms),
            lost_gpu_hours=gpu_hours(self._lost),
            cost=_cost(price, self._gpu_millis_ms),
        )

    def _state(self) -> str:
        """What is most worth saying of all of them."""
        for state in (JobState.RUNNING, JobState.SCHEDULED, JobState.PENDING, JobState.PREEMPTED):
            if self._states[state]:
                return str(state)
        for state in (JobState.FAILED, JobState.CANCELLED):
            if self._states[state]:
                return str(state)
        return str(JobState.COMPLETED)


def ranges(numbers: list[int]) -> str:
    """1-3,7"""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _shown(name: str, values: dict[str, Detail]) -> list[str]:
    """Without secrets; those that were counted last come first."""
    first = islice(reversed(values.values()), _MOST_VALUES)
    return list(dict.fromkeys(dict(shown_detail(detail).params)[name] for detail in first))


def _ending(progress: Progress) -> tuple[str, int]:
    """How it ended, and the code that a shell would have for it."""
    if progress.state is JobState.CANCELLED:
        return "cancelled", _CANCELLED
    if progress.signal:
        return f"signal {progress.signal}", _SIGNALLED + progress.signal
    if progress.exit_code is not None:
        return str(progress.exit_code), progress.exit_code & 0xFF
    return ("0", 0) if progress.state is JobState.COMPLETED else ("failed", 1)


def _array_of(stored: StoredJob) -> str | None:
    """The array that a rerun is of: its elements have the same numbers behind another id."""
    old, array = stored.detail.rerun_of, stored.job.array
    if old is None or array is None:
        return None
    suffix = stored.job.job_id.removeprefix(f"{array.array_id}.")
    return old.removesuffix(f".{suffix}")


def _cost(price: float, gpu_millis_ms: int) -> float | None:
    exact = Decimal(str(price))
    return round(float(Decimal(gpu_millis_ms) * exact / GPU_HOUR), 4) if exact else None
