"""What a job used, from its recorded moves: waiting, running and GPU time, by attempt."""

from collections.abc import Sequence
from dataclasses import dataclass

from tgpu.core.model.cause import Fault
from tgpu.core.model.events import JobMoved
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import PENDING, PLACED, TERMINAL, JobState, Move, Progress, paused_ms
from tgpu.core.model.node import GpuName


@dataclass(frozen=True, slots=True)
class AttemptUse:
    """One try at running a job."""

    attempt: int
    started_at: int
    ended_at: int | None  # None: it has its GPUs still
    run_ms: int
    gpu_millis_ms: int
    gpus: tuple[GpuName, ...]  # of all its workers
    fault: Fault | None = None
    paused_ms: int = 0  # of its run it stood still


@dataclass(frozen=True, slots=True)
class JobReceipt:
    wait_ms: int  # without GPUs, on hold and between attempts too
    run_ms: int  # with them, all attempts together
    gpu_millis_ms: int
    attempts: tuple[AttemptUse, ...]
    complete: bool  # false: the record no longer reaches back to the first attempt
    paused_ms: int = 0  # of its run it stood still, with its GPUs


def receipt_of(job: Job, progress: Progress, moves: Sequence[JobMoved], now: int) -> JobReceipt:
    """From all moves of the job, oldest first; what still goes on counts until now."""
    if sum(move.move is Move.START for move in moves) != progress.attempt:
        return _of_the_last(job, progress, now)
    before, waits_since, waited = PENDING, job.submitted_at, 0
    attempts: list[AttemptUse] = []
    for move in moves:
        after = move.progress
        if move.move is Move.START:
            waited += max(0, move.at - waits_since)
        elif before.state in PLACED and after.state not in PLACED:
            attempts.append(_attempt(job, before, after, move.at))
            waits_since = move.at
        elif after.state in TERMINAL and before.state not in PLACED:
            waited += max(0, move.at - waits_since)  # it was never given GPUs again
        before = after
    if before.state in PLACED:
        attempts.append(_attempt(job, before, before, now))
    elif before.state is JobState.PENDING:
        waited += max(0, now - waits_since)
    return _sum(waited, attempts, complete=True)


def _of_the_last(job: Job, progress: Progress, now: int) -> JobReceipt:
    if progress.started_at is None:
        return _sum(0, [], complete=False)
    over = progress.ended_at
    ran = max(0, (now if over is None else over) - progress.started_at)
    spent = ran * job.request.gpu_millis
    gpus = _gpus(progress)
    stood = paused_ms(progress, now)
    only = AttemptUse(
        progress.attempt, progress.started_at, over, ran, spent, gpus, progress.fault, stood
    )
    return _sum(0, [only], complete=False)


def _attempt(job: Job, before: Progress, after: Progress, at: int) -> AttemptUse:
    started = at if before.started_at is None else before.started_at
    ran = max(0, at - started)
    return AttemptUse(
        attempt=before.attempt,
        started_at=started,
        ended_at=None if after.state in PLACED else at,
        run_ms=ran,
        gpu_millis_ms=ran * job.request.gpu_millis,
        gpus=_gpus(before),
        fault=Fault.PREEMPTED if after.state is JobState.PREEMPTED else after.fault,
        paused_ms=paused_ms(before, at),
    )


def _gpus(progress: Progress) -> tuple[GpuName, ...]:
    return () if progress.placement is None else progress.placement.gpus()


def _sum(waited: int, attempts: Sequence[AttemptUse], *, complete: bool) -> JobReceipt:
    return JobReceipt(
        waited,
        sum(each.run_ms for each in attempts),
        sum(each.gpu_millis_ms for each in attempts),
        tuple(attempts),
        complete,
        sum(each.paused_ms for each in attempts),
    )
