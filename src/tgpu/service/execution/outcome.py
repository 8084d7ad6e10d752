"""What an observation of an attempt means for its job. Pure."""

import dataclasses

from msgspec.structs import replace

from tgpu.core.model import lifecycle
from tgpu.core.model.cause import (
    BLAME,
    NO_EVIDENCE,
    Blame,
    Evidence,
    Fault,
    Finding,
    how_it_ended,
    of_exit,
    of_hardware,
    sentence,
)
from tgpu.core.model.events import JobMoved
from tgpu.core.model.lifecycle import JobState, Move, Progress
from tgpu.core.model.node import Placement
from tgpu.core.plan_events import job_preempted
from tgpu.core.state.cluster_state import Entry
from tgpu.engines.api import Observation, Phase, Place
from tgpu.service.attempt_key import current_key
from tgpu.service.execution.absence import ABSENT
from tgpu.text.masking import mask_text

# A machine that cannot start anything must not spin: the free restarts back off as well, and they
# end. With these numbers that is after some thirty hours.
_FREE_RESTART_MS = 1_000
_LONGEST_FREE_MS = 600_000
_MOST_FREE_RESTARTS = 200
_LONGEST_BACKOFF_MS = 3_600_000
_FORGOTTEN = "the engine lost it before its end was observed"
_UNRECORDED = "cancelled while the store could not record it"


def conclude(
    entry: Entry,
    seen: Observation,
    now: int,
    hardware: str | None = None,
    evidence: Evidence = NO_EVIDENCE,
) -> list[JobMoved]:
    """The moves that follow; none where the observation tells nothing new.

    `hardware` is what its GPUs have had since it started: a job that fails then is not to blame.
    """
    if seen.key != current_key(entry) or entry.progress.state not in lifecycle.PLACED:
        return []
    if _was_ruled_out(entry.progress, seen):
        seen = dataclasses.replace(seen, phase=Phase.LOST, cause=_FORGOTTEN)
    if _was_preempted(entry.progress, seen):
        last = replace(entry.progress, exit_code=seen.exit_code)
        ran = seen.phase is not Phase.NOT_STARTED
        return job_preempted(entry.job, last, seen.at, now, ran=ran)
    if not seen.is_over:
        return _running(entry, seen)
    if seen.phase is Phase.EXITED:
        return [_exited(entry, seen, now, hardware, evidence)]
    if seen.phase is Phase.NOT_STARTED:
        return [_not_started(entry, seen, now)]
    return [_lost(entry, seen, now, hardware)]


def _was_preempted(progress: Progress, seen: Observation) -> bool:
    """Whether it ended because we asked it to make room. By itself, its own end counts."""
    if progress.gives_way_to is None or not seen.is_over:
        return False
    # Of one that was lost nobody knows; it was going to be run again in any case.
    return seen.cause == "stopped" or seen.phase is Phase.LOST


def _was_ruled_out(progress: Progress, seen: Observation) -> bool:
    """Whether the engine says that it does not run because we asked: it did not know it any more.

    It ran, so it is lost and not cancelled, nor is it one that never started.
    """
    is_asked = progress.cause == ABSENT and not progress.stopping
    return is_asked and (seen.phase is Phase.NOT_STARTED or seen.cause == "stopped")


def _running(entry: Entry, seen: Observation) -> list[JobMoved]:
    """One that is taken or out of reach has neither started nor ended: it keeps its GPUs."""
    if entry.progress.state is not JobState.SCHEDULED or seen.phase is not Phase.RUNNING:
        return []
    job_id = entry.job.job_id
    progress = lifecycle.run(job_id, entry.progress, seen.at, seen.pid)
    return [JobMoved(seen.at, job_id, Move.RUN, progress)]


def _was_cancelled(progress: Progress, seen: Observation) -> bool:
    """Also where that is not on record: the engine was told while nothing could be recorded, and
    the service ended before it could (`urgent_stops.py`).
    """
    if progress.stopping:
        return progress.gives_way_to is None
    return seen.cause == "stopped"


def _stopped(entry: Entry, seen: Observation, now: int) -> JobMoved:
    """Its end was asked for: for good, or to wait on hold."""
    cause = entry.progress.cause if entry.progress.stopping else _UNRECORDED
    if not entry.progress.held:
        return _end(entry, seen, JobState.CANCELLED, cause)
    move = _again(entry, seen, now, cause or "put on hold", counts=False)
    return replace(move, progress=replace(move.progress, held=True))


def _exited(
    entry: Entry, seen: Observation, now: int, hardware: str | None, evidence: Evidence
) -> JobMoved:
    progress, options = entry.progress, entry.job.options
    if _was_cancelled(progress, seen):
        return _stopped(entry, seen, now)
    if seen.cause == "time_limit" or seen.fault is Fault.TIME_LIMIT:
        cause = f"time limit of {(options.time_limit_ms or 0) / 1000:g} s reached"
        return _end(entry, seen, JobState.FAILED, cause, Fault.TIME_LIMIT)
    if seen.exit_code == 0:
        return _end(entry, seen, JobState.COMPLETED, None)
    finding = (
        of_exit(seen.exit_code, progress.pid, hardware, evidence)
        if seen.fault is None
        else Finding(seen.fault, seen.cause or "")
    )
    how = how_it_ended(seen.exit_code, seen.signal)
    # A line of its log may be in it, and causes travel further than logs.
    cause, fault = mask_text(sentence(finding, how)), finding.fault
    has_retries = progress.failures < options.max_retries
    if BLAME[fault] is Blame.INFRASTRUCTURE and (options.requeue or has_retries):
        return _free(entry, seen, now, cause, fault)
    if has_retries and BLAME[fault] is Blame.USER:
        delay = min(options.backoff_ms << progress.failures, _LONGEST_BACKOFF_MS)
        return _again(entry, seen, now + delay, cause, fault, counts=True)
    return _end(entry, seen, JobState.FAILED, cause, fault)


def _not_started(entry: Entry, seen: Observation, now: int) -> JobMoved:
    cause = seen.cause or "the engine did not start it"
    if _was_cancelled(entry.progress, seen):
        return _stopped(entry, seen, now)
    fault = seen.fault or (Fault.NODE if seen.retry else Fault.USER_ERROR)
    if not seen.retry or BLAME[fault] is not Blame.INFRASTRUCTURE:
        # What it asks for is not there, and will not be.
        return _end(entry, seen, JobState.FAILED, cause, fault)
    return _free(entry, seen, now + _FREE_RESTART_MS, cause, fault)


def _lost(entry: Entry, seen: Observation, now: int, hardware: str | None) -> JobMoved:
    cause, fault = seen.cause or "its end was not observed", seen.fault or Fault.NODE
    if hardware is not None:
        cause, fault = f"{hardware} ({cause})", of_hardware(hardware).fault
    if _was_cancelled(entry.progress, seen):
        return _stopped(entry, seen, now)
    # Retries are no reason: nobody knows whether it has done its work.
    if entry.job.options.requeue:
        return _free(entry, seen, now, cause, fault)
    return _end(entry, seen, JobState.FAILED, cause, fault)


def _free(entry: Entry, seen: Observation, first_at: int, cause: str, fault: Fault) -> JobMoved:
    """Another try that counts against no retries: later each time, and not for ever."""
    before = entry.progress.free_restarts
    if before >= _MOST_FREE_RESTARTS:
        cause = f"{cause}; the infrastructure failed it {before + 1} times: it is not retried"
        return _end(entry, seen, JobState.FAILED, cause, fault)
    longer = min(_FREE_RESTART_MS << min(before, 20), _LONGEST_FREE_MS) if before else 0
    return _again(entry, seen, first_at + longer, cause, fault, counts=False, is_free=True)


def _end(
    entry: Entry, seen: Observation, to: JobState, cause: str | None, fault: Fault | None = None
) -> JobMoved:
    job_id = entry.job.job_id
    progress = lifecycle.end(
        job_id,
        entry.progress,
        to,
        seen.at,
        exit_code=seen.exit_code,
        signal=seen.signal,
        cause=cause,
    )
    move = {
        JobState.COMPLETED: Move.COMPLETE,
        JobState.FAILED: Move.FAIL,
        JobState.CANCELLED: Move.CANCEL,
    }[to]
    if fault is not None:
        progress = replace(progress, fault=fault)
    if seen.place is not None:  # for history: the engine has bound it, and not we
        progress = replace(progress, placement=place_of(entry.progress, seen.place))
    return JobMoved(seen.at, job_id, move, progress)


def place_of(progress: Progress, place: Place) -> Placement | None:
    """Where an attempt is or was: as the engine says, as far as it knows."""
    ours = progress.placement
    return place.as_placement("" if ours is None else ours.gpu_type) or ours


def _again(
    entry: Entry,
    seen: Observation,
    eligible_at: int,
    cause: str,
    fault: Fault | None = None,
    *,
    counts: bool,
    is_free: bool = False,
) -> JobMoved:
    job_id = entry.job.job_id
    last = replace(entry.progress, exit_code=seen.exit_code)
    progress = lifecycle.requeue(
        job_id, last, eligible_at, cause, counts, at=seen.at, is_free=is_free
    )
    if fault is not None:
        progress = replace(progress, fault=fault)
    return JobMoved(seen.at, job_id, Move.REQUEUE, progress)
