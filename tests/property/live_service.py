"""The service's decisions carried out, with an engine that takes no time and tells the truth.

What becomes of a plan, and of what the engine reports, is the service's own code; a cycle follows
every commit, and one is made at every instant. Only the writer, the store and processes are not
there."""

from tgpu.core.check import check_invariants
from tgpu.core.model.events import Event, JobMoved, JobsSubmitted, TimePassed
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.plan import BackfillReservation
from tgpu.core.plan_events import job_ended
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.core.state.cluster_state import Entry, State
from tgpu.engines.api import Observation, Phase
from tgpu.service.attempt_key import current_key
from tgpu.service.execution.outcome import conclude
from tgpu.service.execution.plan_commit import prepare_commit

MOST_CYCLES = 100


class LiveService:
    def __init__(self, state: State, config: SchedulingConfig) -> None:
        self.state = state
        self.config = config
        self.now = state.now
        self.run_ms: dict[JobId, int] = {}
        self.promises: tuple[BackfillReservation, ...] = ()
        self.starts: dict[JobId, int] = {}  # the first of each job, since this was emptied
        self._ends: dict[JobId, tuple[int, str | None]] = {}  # when, and by whom unless by itself

    def submit(self, job: Job, run_ms: int) -> None:
        self.run_ms[job.job_id] = run_ms
        self._commit([JobsSubmitted(self.now, (job,))])

    def is_over(self) -> bool:
        return not self.state.live_count()

    def live_until(self, instant: int) -> None:
        """Up to then and not with it."""
        while self.now < instant:
            self.settle()
            self.now += 1
            self._let_end()

    def settle(self) -> None:
        """Cycles until one decides nothing."""
        for _ in range(MOST_CYCLES):
            self.state.apply(TimePassed(self.now))
            plan = self.config.decide(self.state, self.now, self.promises)
            events = prepare_commit(self.state, plan, self.now).events
            self.promises = plan.reservations
            self._commit(events)
            check_invariants(self.state)
            if not events:
                return
        raise AssertionError(f"{MOST_CYCLES} cycles at {self.now} ended in no rest")

    def _commit(self, events: list[Event]) -> None:
        for event in events:
            self.state.apply(event)
        for event in events:
            if not isinstance(event, JobMoved):
                continue
            entry = self.state.entry(event.job_id)
            if event.move is Move.START and entry is not None:
                self.starts.setdefault(event.job_id, self.now)
                self._launch(entry)
            elif event.move is Move.STOP and entry is not None:
                self._report(entry, Phase.EXITED, cause="stopped")
            elif event.progress.state not in (JobState.SCHEDULED, JobState.RUNNING):
                self._ends.pop(event.job_id, None)

    def _launch(self, entry: Entry) -> None:
        job_id, limit = entry.job.job_id, entry.job.options.time_limit_ms
        runs = self.run_ms[job_id]
        # Who comes first where a lease is given back the instant its time is up: the cycle.
        is_cut = limit is not None and (limit < runs or (limit == runs and entry.job.options.lease))
        ends_at = self.now + (limit if limit is not None and is_cut else runs)
        self._ends[job_id] = (ends_at, "time_limit" if is_cut else None)
        if not entry.job.options.lease:
            self._report(entry, Phase.RUNNING)

    def _let_end(self) -> None:
        for job_id in sorted(self._ends):
            at, cause = self._ends[job_id]
            entry = self.state.entry(job_id)
            if at > self.now or entry is None:
                continue
            if not entry.job.options.lease:
                self._report(entry, Phase.EXITED, cause=cause)
            elif cause is None:  # its user is done with it; at its limit the cycle ends it
                self._commit([job_ended(entry, JobState.COMPLETED, self.now, exit_code=0)])

    def _report(self, entry: Entry, phase: Phase, cause: str | None = None) -> None:
        code = None if phase is Phase.RUNNING else 0 if cause is None else 143
        seen = Observation(current_key(entry), phase, self.now, exit_code=code, cause=cause)
        self._commit([*conclude(entry, seen, self.now)])
