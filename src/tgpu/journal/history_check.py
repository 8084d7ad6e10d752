"""Checks a history for consistency: the journal, and the engine's record of its starts.

Four claims, and every way in which one does not hold is a sentence: an attempt was started once at
most; no GPU was given to more than it holds, at any instant; every acknowledged job has ended or is
alive; every end has a cause. The journal is read from its first event, and nothing of the scheduler
is believed: what it holds is counted here once more.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tgpu.core.model.events import ClockStepped, Event, JobChanged, JobMoved, JobsSubmitted
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import MOVES, PENDING, PLACED, JobState, Move, Progress
from tgpu.core.model.node import Part, Placement
from tgpu.core.model.units import GPU
from tgpu.engines.api import RecordedStart

_Gpu = tuple[str, int]  # node, index
_Attempt = tuple[str, int]  # job, number
_NEEDS_CAUSE: Final = frozenset({Move.FAIL, Move.CANCEL, Move.REQUEUE, Move.PREEMPT})
_FAR: Final = 2**62


def check_history(
    events: Iterable[Event],
    runs: Sequence[RecordedStart] = (),
    *,
    acknowledged: Iterable[str] = (),
    is_settled: bool = False,
) -> list[str]:
    """What is wrong with it; nothing where all is well.

    `runs` are the engine's records, `acknowledged` the jobs whose submission was answered.
    `is_settled`: everything has been told to everybody, so that both sides must agree.
    """
    recorded = _RecordedJobs()
    for event in events:
        recorded.read(event)
    return [
        *recorded.faults,
        *_lost_jobs(recorded, acknowledged),
        *_wrong_starts(recorded, runs),
        *_shared_gpus(recorded, runs),
        *(_disagreements(recorded, runs) if is_settled else ()),
    ]


@dataclass(slots=True)
class _RecordedJobs:
    """The jobs as the journal tells them, and what was wrong with the telling."""

    jobs: dict[JobId, Job] = field(default_factory=dict)
    progress: dict[JobId, Progress] = field(default_factory=dict)
    placements: dict[_Attempt, Placement] = field(default_factory=dict)
    over_at: dict[_Attempt, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    _held: Counter[_Gpu] = field(default_factory=Counter)
    _ran: set[_Attempt] = field(default_factory=set)

    def read(self, event: Event) -> None:
        match event:
            case JobsSubmitted():
                for job in event.jobs:
                    if job.job_id in self.jobs:
                        self.faults.append(f"job {job.job_id} was submitted twice")
                    self.jobs[job.job_id] = job
                    self.progress[job.job_id] = PENDING
            case JobChanged():
                self.jobs[event.job.job_id] = event.job
            case ClockStepped():
                self.progress.update(event.moved)
            case JobMoved() if event.job_id not in self.jobs:
                self.faults.append(f"job {event.job_id} moved and was never submitted")
            case JobMoved():
                self._move(event)

    def _move(self, event: JobMoved) -> None:
        job_id, before, after = event.job_id, self.progress[event.job_id], event.progress
        if MOVES.get((before.state, event.move)) is not after.state:
            self.faults.append(f"job {job_id} was {before.state} and cannot {event.move}")
        self.progress[job_id] = after
        if event.move is Move.START:
            self._start(event)
        elif event.move is Move.RUN:
            if (job_id, after.attempt) in self._ran:
                self.faults.append(f"attempt {after.attempt} of job {job_id} began to run twice")
            self._ran.add((job_id, after.attempt))
        if before.state in PLACED and after.state not in PLACED:
            self._take_back(before.placement)
            self.over_at[job_id, before.attempt] = event.at
        self._check_cause(event)

    def _start(self, event: JobMoved) -> None:
        attempt, placement = (event.job_id, event.progress.attempt), event.progress.placement
        if attempt in self.placements:
            self.faults.append(f"attempt {attempt[1]} of job {event.job_id} was started twice")
        if placement is None:
            self.faults.append(f"job {event.job_id} was started on no GPUs that are on record")
            return
        self.placements[attempt] = placement
        for gpu, millis in _shares(placement.parts()):
            self._held[gpu] += millis
            if self._held[gpu] > GPU:
                self.faults.append(
                    f"GPU {gpu[1]} of node {gpu[0]} was given to job {event.job_id} too:"
                    f" {self._held[gpu]} thousandths of it are in use"
                )

    def _take_back(self, placement: Placement | None) -> None:
        for gpu, millis in _shares(() if placement is None else placement.parts()):
            self._held[gpu] -= millis

    def _check_cause(self, event: JobMoved) -> None:
        progress, is_lease = event.progress, self.jobs[event.job_id].options.lease
        if event.move in _NEEDS_CAUSE and not progress.cause:
            self.faults.append(f"job {event.job_id} came to {event.move} without a cause")
        if event.move is Move.FAIL and not is_lease and progress.fault is None:
            self.faults.append(f"job {event.job_id} failed, and nobody is to blame")
        if event.move is Move.COMPLETE and not is_lease and progress.exit_code != 0:
            self.faults.append(
                f"job {event.job_id} completed with exit code {progress.exit_code} and not 0"
            )


def _shares(parts: Iterable[Part]) -> Iterator[tuple[_Gpu, int]]:
    for part in parts:
        for share in part.shares:
            yield (part.node_id, share.gpu_index), share.millis


def _lost_jobs(recorded: _RecordedJobs, acknowledged: Iterable[str]) -> Iterator[str]:
    for job_id in acknowledged:
        if job_id not in recorded.jobs:
            yield f"job {job_id} was acknowledged and is not in the journal"
    for job_id, progress in recorded.progress.items():
        if progress.state is JobState.PREEMPTED:
            yield f"job {job_id} was preempted and is neither waiting nor over"
        if progress.state in PLACED and progress.placement is None:
            yield f"job {job_id} is {progress.state} on no GPUs that are on record"


def _wrong_starts(recorded: _RecordedJobs, runs: Sequence[RecordedStart]) -> Iterator[str]:
    starts = Counter((run.key.job_id, run.key.attempt) for run in runs)
    for (job_id, attempt), count in starts.items():
        if count > 1:
            yield f"attempt {attempt} of job {job_id} was started {count} times by the engine"
        if (job_id, attempt) not in recorded.placements:
            yield f"attempt {attempt} of job {job_id} ran, and nobody had decided it"


def _shared_gpus(recorded: _RecordedJobs, runs: Sequence[RecordedStart]) -> Iterator[str]:
    """By the engine's own clock: from its starts to its ends, on the GPUs that it says."""
    uses: Mapping[_Gpu, list[tuple[int, int, str]]] = defaultdict(list)
    for run in runs:
        attempt = (run.key.job_id, run.key.attempt)
        begin, end = run.started_at, run.ended_at
        if end is None and not run.is_alive:  # it is over when that was concluded
            end = recorded.over_at.get(attempt)
        end = _FAR if end is None else end
        for gpu, millis in _shares(_parts(recorded, run)):
            uses[gpu].append((begin, millis, run.key.job_id))
            uses[gpu].append((max(begin, end), -millis, run.key.job_id))
    for gpu, changes in uses.items():
        in_use = 0
        for at, millis, job_id in sorted(changes):  # at one instant ends come first
            in_use += millis
            if in_use > GPU:
                yield f"GPU {gpu[1]} of node {gpu[0]} had job {job_id} on it too, from {at} on"


def _parts(recorded: _RecordedJobs, run: RecordedStart) -> Sequence[Part]:
    if run.place is not None:
        return run.place.parts
    placement = recorded.placements.get((run.key.job_id, run.key.attempt))
    return () if placement is None else placement.parts()


def _disagreements(recorded: _RecordedJobs, runs: Sequence[RecordedStart]) -> Iterator[str]:
    alive = {(run.key.job_id, run.key.attempt) for run in runs if run.is_alive}
    wanted = {
        (str(job_id), progress.attempt)
        for job_id, progress in recorded.progress.items()
        if progress.state is JobState.RUNNING and not recorded.jobs[job_id].options.lease
    }
    for job_id, attempt in sorted(wanted - alive):
        yield f"attempt {attempt} of job {job_id} should run, and the engine has it not alive"
    for job_id, attempt in sorted(alive - wanted):
        yield f"attempt {attempt} of job {job_id} runs, and no job asks for it"
