"""An observed cycle: what it decides, and why the other jobs wait."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tgpu.core.capacity.ledger import Trial
from tgpu.core.cycle import CycleObserver
from tgpu.core.explain.reason import explain_class, named, own_reason
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import JobClass
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.plan import Plan
from tgpu.core.model.reasons import Reason, ReasonCode, reason
from tgpu.core.reservations.reserved_capacity import ReservedCapacity
from tgpu.core.state.cluster_state import State


class Waits(NamedTuple):
    """Jobs that nothing tells apart but their age, the oldest by name, and why they wait."""

    job_id: JobId
    jobs: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class WatchedCycle:
    plan: Plan
    waits: tuple[Waits, ...]  # in the order in which the cycle came to them
    untold: int  # jobs that wait besides


def watch_cycle(
    state: State, decide: Callable[[CycleObserver | None], Plan], most: int
) -> WatchedCycle:
    """At most so many kinds of jobs are asked about: what is short costs a look at the nodes."""
    seen = _Seen(most)
    plan = decide(seen)
    started = {start.job_id for start in plan.starts}
    waits: list[Waits] = []
    untold = 0
    for queue in state.waiting.classes():
        left = [job_id for _, job_id in queue.keys if job_id not in started]
        if not left:
            continue
        known = seen.reasons.get(queue.job_class)
        if known is None and plan.stopped_by is not None and queue.job_class not in seen.all:
            known = (most, reason(ReasonCode.STRICT_LINE, job=plan.stopped_by))
        if known is None:
            untold += len(left)
            continue
        waits.append(Waits(left[0], len(left), _of(state, plan, left[0], known[1])))
    order = {one.job_id: place for place, one in enumerate(waits)}
    waits.sort(key=lambda one: (_place(state, seen, one.job_id, most), order[one.job_id]))
    for entry in state.entries():
        own = own_reason(state, entry) if entry.progress.state is JobState.PENDING else None
        if own is not None and own.code is not ReasonCode.PROMISED:
            waits.append(Waits(entry.job.job_id, 1, own))
    untold += sum(one.jobs for one in waits[most:])
    return WatchedCycle(plan, tuple(waits[:most]), untold)


def _place(state: State, seen: "_Seen", job_id: JobId, last: int) -> int:
    entry = state.entry(job_id)
    return last if entry is None else seen.reasons.get(entry.queue.job_class, (last, None))[0]


def _of(state: State, plan: Plan, job_id: JobId, found: Reason) -> Reason:
    leaving = sorted(gone.victim for gone in plan.preemptions if gone.to == job_id)
    if leaving:
        return reason(ReasonCode.PROMISED, jobs=", ".join(leaving))
    return named(state, plan, found)


class _Seen:
    """Notes each class that cannot start, when the cycle passes it by."""

    def __init__(self, most: int) -> None:
        self.all: set[JobClass] = set()
        self.reasons: dict[JobClass, tuple[int, Reason]] = {}
        self._most = most

    def cannot_start(
        self, job_class: JobClass, job_id: JobId, trial: Trial, holds: ReservedCapacity
    ) -> None:
        if job_class in self.all:
            return
        self.all.add(job_class)
        if len(self.reasons) < self._most:
            found = explain_class(trial.ledger, job_class, holds)
            self.reasons[job_class] = (len(self.reasons), found)
