"""Job histories from the journal: when each was submitted, had GPUs, and how it ended."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tgpu.core.model.events import ClockStepped, Event, JobChanged, JobMoved, JobsSubmitted
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import PLACED, TERMINAL, JobState, Move, Progress
from tgpu.core.state.clock_step import aged
from tgpu.journal.lines import JournalLine
from tgpu.store import event_codec


@dataclass(slots=True)
class JobHistory:
    """One job. It has its GPUs from its start on, also while its processes are being launched."""

    job: Job
    name: str = ""
    state: JobState = JobState.PENDING
    first_start: int | None = None
    since: int | None = None  # it has its GPUs since then; None: it has none now
    gpu_type: str = ""  # on which it ran last
    kept_until: int | None = None  # of the present attempt: its last checkpoint
    ended_at: int | None = None
    held_ms: int = 0  # how long it had its GPUs, in all attempts that are over
    # How long it needs them: what was lost by preemption is not its own doing.
    run_ms: int = 0
    preemptions: int = 0
    ended_by_itself: bool = False  # with its GPUs, not while it waited

    def take(self, event: JobMoved) -> None:
        progress = event.progress
        self.state = progress.state
        if event.move is Move.CHECKPOINT:
            self.kept_until = progress.checkpoint_at
        if progress.state in PLACED:
            if self.since is None:
                self._start(event.at, progress)
            return
        had_gpus = self.since is not None
        if had_gpus:
            self._stop(event)
        if progress.state in TERMINAL:
            self.ended_at = event.at
            self.ended_by_itself = had_gpus

    def step(self, by: int) -> None:
        """The clock was set: it has had its GPUs as long as before."""
        self.job = aged(self.job, by)
        self.first_start = None if self.first_start is None else self.first_start + by
        self.since = None if self.since is None else self.since + by
        self.kept_until = None if self.kept_until is None else self.kept_until + by

    def _start(self, at: int, progress: Progress) -> None:
        self.since, self.kept_until = at, None
        self.first_start = at if self.first_start is None else self.first_start
        if progress.placement is not None:
            self.gpu_type = progress.placement.gpu_type

    def _stop(self, event: JobMoved) -> None:
        assert self.since is not None
        held = max(0, event.at - self.since)
        self.held_ms += held
        if event.move is Move.PREEMPT:
            self.preemptions += 1
            held = 0 if self.kept_until is None else max(0, self.kept_until - self.since)
        self.run_ms += held
        self.since = None


class JobHistories:
    """Follows events; whoever is over is given away and forgotten."""

    def __init__(self, over: Callable[[JobHistory], None]) -> None:
        self.live: dict[JobId, JobHistory] = {}
        self._over = over

    def take(self, row: JournalLine, event: Event) -> None:
        if isinstance(event, JobsSubmitted):
            names = names_of(row.payload)
            for job in event.jobs:
                self.live[job.job_id] = JobHistory(job, names.get(job.job_id, ""))
        elif isinstance(event, JobChanged):
            life = self.live.get(event.job.job_id)
            if life is not None:
                life.job = event.job
                life.name = life.name if event.name is None else event.name
        elif isinstance(event, ClockStepped):
            for life in self.live.values():
                life.step(event.by)
        elif isinstance(event, JobMoved):
            life = self.live.get(event.job_id)
            if life is None:
                return
            life.take(event)
            if life.ended_at is not None:
                self._over(self.live.pop(event.job_id))

    def restore(self, job: Job, progress: Progress, at: int) -> JobHistory:
        """A job of a snapshot."""
        life = self.live[job.job_id] = JobHistory(job, state=progress.state)
        if progress.state in PLACED:
            began = at if progress.started_at is None else progress.started_at
            life.first_start = life.since = began
            life.kept_until = progress.checkpoint_at
            if progress.placement is not None:
                life.gpu_type = progress.placement.gpu_type
        return life


def names_of(payload: bytes) -> dict[JobId, str]:
    """The names in a submission; none where it has none."""
    if b'"detail"' not in payload:
        return {}
    try:
        found = event_codec.decode_details(payload)
    except msgspec.DecodeError:
        return {}
    return {job_id: detail.name for job_id, detail in found.items()}
