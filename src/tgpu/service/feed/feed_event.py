"""Recorded events as watchers see them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from tgpu.core.model.events import (
    BookingRemoved,
    BookingSet,
    ClockStepped,
    Event,
    JobChanged,
    JobMoved,
    JobsSubmitted,
    MixSet,
    NodeSet,
    QueueRemoved,
    QueueSet,
    SettingsSet,
    TenantSet,
    TimePassed,
    UsageAdded,
)
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import JobState, Move, Progress
from tgpu.core.model.node import Node
from tgpu.core.model.units import GPU
from tgpu.core.preemption.cause import named_in, without_names
from tgpu.store.api import DecisionId
from tgpu.text.gpu_names import gpu_name

_MOVE_KINDS: Final = {
    Move.START: "job_scheduled",
    Move.RUN: "job_started",
    Move.COMPLETE: "job_completed",
    Move.FAIL: "job_failed",
    Move.CANCEL: "job_cancelled",
    Move.REQUEUE: "job_requeued",
    Move.PREEMPT: "job_preempted",
    Move.STOP: "job_stopping",
    Move.NOMINATE: "job_promised",
    Move.CHECKPOINT: "job_checkpointed",
    Move.NOTE: "job_noted",
    Move.HOLD: "job_held",
    Move.RELEASE: "job_released",
    Move.PAUSE: "job_paused",
    Move.RESUME: "job_resumed",
}
KINDS: Final = (
    "job_submitted",
    *_MOVE_KINDS.values(),
    "job_changed",
    "tenant_changed",
    "queue_changed",
    "queue_removed",
    "node_changed",
    "booking_set",
    "booking_removed",
    "clock_stepped",
)
_PREEMPTED_FOR: Final = "gives_way_to"
ESTIMATED: Final = "job_estimated"  # not recorded: told to those who watch, and then gone


class JobRef(NamedTuple):
    job_id: JobId
    tenant_id: TenantId
    user: str = ""


class Whose(NamedTuple):
    """The tenant and the user of a job; of one that nobody knows, neither."""

    tenant_id: TenantId | None = None
    user: str = ""


UNKNOWN: Final = Whose()


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One row of the journal. A bulk submission is one event about many `jobs`."""

    seq: int
    at: int
    kind: str  # "job_submitted", "job_started", …: see KINDS
    job_id: JobId | None = None  # None where it is about many jobs, or about none
    tenant_id: TenantId | None = None
    state: JobState | None = None
    data: Mapping[str, object] = field(default_factory=dict)
    jobs: tuple[JobRef, ...] = ()
    other: TenantId | None = None  # of the job that it is preempted for
    user: str = ""  # of its one job
    decision: DecisionId | None = None  # None: recorded before events had one, or not at all
    # What others made of it, to be made once: an event is sent to many. Never copied with it.
    written: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def without_other(self) -> "FeedEvent":
        """For readers who may not see what it is preempted for."""
        hidden = {name: value for name, value in self.data.items() if name != _PREEMPTED_FOR}
        if "cause" in hidden:
            hidden["cause"] = without_names(str(hidden["cause"]))
        return replace(self, data=hidden, other=None)

    @property
    def names_another(self) -> bool:
        """Whether it tells of another job."""
        return _PREEMPTED_FOR in self.data or named_in(str(self.data.get("cause"))) is not None


def feed_event(
    seq: int,
    event: Event,
    mover: Whose = UNKNOWN,
    other: TenantId | None = None,
    decision: DecisionId | None = None,
) -> FeedEvent | None:
    """What watchers are told; None for what is no news to them. `mover` is whose job moved,
    `other` the tenant of the job whose name its cause has, or that it is preempted for."""
    told = _told(seq, event, mover, other)
    return told if told is None or decision is None else replace(told, decision=decision)


def _told(seq: int, event: Event, mover: Whose, other: TenantId | None) -> FeedEvent | None:
    match event:
        case JobsSubmitted():
            return _submitted(seq, event)
        case JobMoved(at, job_id, move, progress):
            kind, state = _MOVE_KINDS[move], progress.state
            data = _progress_data(progress) | _by(event.by)
            tenant_id, user = mover
            if "cause" in data and other != tenant_id:
                data["cause"] = without_names(str(data["cause"]))
            return FeedEvent(seq, at, kind, job_id, tenant_id, state, data, other=other, user=user)
        case JobChanged(at, job):
            changed: dict[str, object] = {"priority": job.priority, **_by(event.by)}
            if event.changes:
                told = {name: [before, after] for name, before, after in event.changes}
                changed["changes"] = told
            state = JobState.PENDING  # only then it can be changed
            user = job.options.user
            return FeedEvent(
                seq, at, "job_changed", job.job_id, job.tenant_id, state, changed, user=user
            )
        case ClockStepped(at, by):
            return FeedEvent(seq, at, "clock_stepped", data={"seconds": by / 1000})
        case UsageAdded() | SettingsSet() | MixSet() | TimePassed():
            return None
        case _:
            return _setting(seq, event)


def _setting(
    seq: int,
    event: TenantSet | QueueSet | QueueRemoved | NodeSet | BookingSet | BookingRemoved,
) -> FeedEvent:
    match event:
        case TenantSet(at, tenant):
            data = _by(event.by)
            return FeedEvent(seq, at, "tenant_changed", tenant_id=tenant.tenant_id, data=data)
        case QueueSet(at, queue):
            data = {"queue": queue.name, **_by(event.by)}
            return FeedEvent(seq, at, "queue_changed", tenant_id=queue.tenant_id, data=data)
        case QueueRemoved(at, owner, name):
            data = {"queue": name, **_by(event.by)}
            return FeedEvent(seq, at, "queue_removed", tenant_id=owner, data=data)
        case NodeSet(at, node):
            return FeedEvent(seq, at, "node_changed", data=_node_data(node) | _by(event.by))
        case BookingSet(at, booking):
            data = {"booking": booking.booking_id, **_by(event.by)}
            return FeedEvent(seq, at, "booking_set", tenant_id=booking.tenant_id, data=data)
        case BookingRemoved(at, booking_id, cause):
            ended: dict[str, object] = {"booking": booking_id, "cause": cause, **_by(event.by)}
            return FeedEvent(seq, at, "booking_removed", data=ended)


def _by(name: str) -> dict[str, object]:
    return {"by": name} if name else {}


def other_in(event: Event) -> JobId | None:
    """The job, or the reservation, that an event's job is preempted for."""
    if not isinstance(event, JobMoved):
        return None
    named = event.progress.gives_way_to or named_in(event.progress.cause)
    return None if named is None else JobId(named)


def _node_data(node: Node) -> dict[str, object]:
    """With the GPUs that take no job because the hardware says so, where there are any."""
    problems = {str(gpu.index): gpu.problem for gpu in node.gpus if gpu.problem is not None}
    return {"node": node.node_id, **({"problems": problems} if problems else {})}


def _submitted(seq: int, event: JobsSubmitted) -> FeedEvent:
    at, kind, state = event.at, "job_submitted", JobState.PENDING
    if len(event.jobs) == 1:
        (job,) = event.jobs
        data = _job_data(job, held=job.job_id in event.held)
        user = job.options.user
        return FeedEvent(seq, at, kind, job.job_id, job.tenant_id, state, data, user=user)
    jobs = tuple(JobRef(job.job_id, job.tenant_id, job.options.user) for job in event.jobs)
    return FeedEvent(seq, at, kind, state=state, data={"count": len(jobs)}, jobs=jobs)


def _job_data(job: Job, *, held: bool) -> dict[str, object]:
    data: dict[str, object] = {
        "queue": job.queue,
        "priority": job.priority,
        "gpu_count": job.request.gpu_millis / GPU,
    }
    if job.request.gpu_type is not None:
        data["gpu_type"] = job.request.gpu_type
    if held:
        data["held"] = True
    return data


def _progress_data(progress: Progress) -> dict[str, object]:
    placement = progress.placement
    facts: dict[str, object] = {
        "attempt": progress.attempt or None,
        "restarts": progress.restarts or None,
        "held": progress.held or None,
        "node": placement.node_id if placement is not None else None,
        "gpus": placement.first_indexes() if placement is not None else None,
        "gpu_names": [gpu_name(*gpu) for gpu in placement.gpus()] if placement else None,
        "exit_code": progress.exit_code,
        "signal": progress.signal,
        "cause": progress.cause,
        "failure": None if progress.fault is None else progress.fault.value,
        _PREEMPTED_FOR: progress.gives_way_to if progress.stopping else None,
    }
    return {name: value for name, value in facts.items() if value is not None}
