"""The commands on jobs: submit, cancel, hold, release, complete, rerun."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpu_scheduler.core import lifecycle
from gpu_scheduler.core.errors import (
    Conflict,
    Duplicate,
    IllegalMove,
    InvalidRequest,
    NotFound,
    SchedulerError,
    Unavailable,
)
from gpu_scheduler.core.events import JobMoved, JobsSubmitted
from gpu_scheduler.core.ids import JOB_ID_RULE, JobId, is_job_id
from gpu_scheduler.core.job import Dependency, DependencyKind, Detail, Job, class_of
from gpu_scheduler.core.lifecycle import PLACED, JobState, Move
from gpu_scheduler.core.state import Entry, State
from gpu_scheduler.service.clock import Clock
from gpu_scheduler.service.fit import refuse_what_never_fits
from gpu_scheduler.service.submission import MAX_ELEMENTS, Submission, unfold
from gpu_scheduler.service.writer import Decide, Decision, Writer
from gpu_scheduler.store.api import Store, StoredJob


@dataclass(frozen=True, slots=True)
class Submitted:
    """The ids of a submission's jobs, in order. `repeated`: they were there already."""

    base_id: JobId
    job_ids: tuple[JobId, ...]
    repeated: bool = False


class JobCommands:
    def __init__(
        self,
        state: State,
        writer: Writer,
        store: Store,
        clock: Clock,
        *,
        max_queue_size: int,
        leases_only: bool,
        last_number: int,
    ) -> None:
        self._state = state
        self._writer = writer
        self._store = store
        self._clock = clock
        self._max_queue_size = max_queue_size
        self._leases_only = leases_only  # there is no engine: commands are kept, not run
        self._last_number = last_number

    async def submit(self, submission: Submission) -> Submitted:
        """Queue the jobs of one submission, all of them or none."""
        self._check_shape(submission)
        if self._leases_only or not submission.detail.argv:
            submission = replace(submission, options=replace(submission.options, lease=True))
        env_id, environments = _environment(submission.base_environment)
        submission = replace(
            submission,
            detail=replace(submission.detail, env_id=env_id),
            after=await self._open_dependencies(submission),
        )
        self._check_fit(submission)
        named = submission.job_id is not None
        base_id = submission.job_id or await self._new_id()
        now = self._clock.now() if submission.submitted_at is None else submission.submitted_at
        unfolded = unfold(submission, base_id, now)
        job_ids = tuple(job.job_id for job, _ in unfolded)
        if named and (earlier := await self._earlier(unfolded)):
            return Submitted(base_id, earlier, repeated=True)

        def decide(state: State) -> Decision[Submitted]:
            jobs = tuple(job for job, _ in unfolded)
            for job in jobs:
                if state.entry(job.job_id) is not None:
                    raise Duplicate(job.job_id)
            self._check_room(state, len(jobs))
            for dependency in submission.after:
                if state.entry(dependency.job_id) is None:
                    raise Conflict(
                        f"job {dependency.job_id} ended while this one was submitted; submit again"
                    )
            held = frozenset(job_ids) if submission.held else frozenset()
            return Decision(
                Submitted(base_id, job_ids),
                [JobsSubmitted(now, jobs, held)],
                {job.job_id: detail for job, detail in unfolded},
                environments,
            )

        touches = {*job_ids, *(d.job_id for d in submission.after)}
        return await self._writer.do(decide, touches)

    async def submit_plain(self, jobs: Sequence[Job]) -> list[SchedulerError | None]:
        """Queue leases in bulk, each for itself: an error at the place of each refused one.

        The fast path: no dependencies, no details, and a job that can never fit is queued.
        """
        taken = await self._store.known([job.job_id for job in jobs])

        def decide(state: State) -> Decision[list[SchedulerError | None]]:
            errors: list[SchedulerError | None] = []
            accepted: list[Job] = []
            seen: set[JobId] = set(taken)
            tenants = state.ledger.tenants
            room = self._room(state)
            for job in jobs:
                error: SchedulerError | None = None
                if job.job_id in seen or state.entry(job.job_id) is not None:
                    error = Duplicate(job.job_id)
                elif job.tenant_id not in tenants:
                    error = _unknown_tenant(state, job.tenant_id)
                elif len(accepted) >= room:
                    error = _queue_full(self._max_queue_size)
                else:
                    accepted.append(job)
                    seen.add(job.job_id)
                errors.append(error)
            events = [JobsSubmitted(self._clock.now(), tuple(accepted))] if accepted else []
            return Decision(errors, events)

        return await self._writer.do(decide, [job.job_id for job in jobs])

    async def cancel(self, job_id: JobId, cause: str = "cancelled by its owner") -> JobState:
        """End a job for good. The state it is in then: a running one takes its grace to end."""

        def decide(state: State) -> Decision[JobState]:
            entry = self._live(state, job_id)
            now = self._clock.now()
            if entry.progress.state in PLACED and not entry.job.options.lease:
                stopped = lifecycle.stop(job_id, entry.progress, cause)
                move = JobMoved(now, job_id, Move.STOP, stopped)
            else:
                ended = lifecycle.end(job_id, entry.progress, JobState.CANCELLED, now, cause=cause)
                move = JobMoved(now, job_id, Move.CANCEL, ended)
            return Decision(move.progress.state, [move])

        return await self._change(job_id, decide)

    async def hold(self, job_id: JobId, *, held: bool) -> JobState:
        def decide(state: State) -> Decision[JobState]:
            entry = self._live(state, job_id)
            progress = lifecycle.hold(job_id, entry.progress, held)
            move = Move.HOLD if held else Move.RELEASE
            return Decision(progress.state, [JobMoved(self._clock.now(), job_id, move, progress)])

        return await self._change(job_id, decide)

    async def complete(self, job_id: JobId) -> JobState:
        """Give back a lease. Jobs with a command end with their command."""

        def decide(state: State) -> Decision[JobState]:
            entry = self._live(state, job_id)
            if not entry.job.options.lease:
                raise Conflict(
                    f"job {job_id} has a command and completes with it; to end it now: "
                    f"tgpu cancel {job_id}"
                )
            if entry.progress.state is not JobState.RUNNING:
                raise IllegalMove(job_id, entry.progress.state, Move.COMPLETE)
            now = self._clock.now()
            ended = lifecycle.end(job_id, entry.progress, JobState.COMPLETED, now, exit_code=0)
            return Decision(ended.state, [JobMoved(now, job_id, Move.COMPLETE, ended)])

        return await self._change(job_id, decide)

    async def rerun(self, job_id: JobId) -> Submitted:
        """A new job with the content of an old one, whatever became of that."""
        stored = await self._store.job(job_id)
        if stored is None:
            raise not_found(job_id)
        job, detail = stored.job, stored.detail
        return await self.submit(
            Submission(
                request=job.request,
                tenant_id=job.tenant_id,
                priority=job.priority,
                queue=job.queue,
                options=job.options,
                detail=replace(detail, rerun_of=job_id),
                base_environment=await self._store.environment(detail.env_id)
                if detail.env_id
                else {},
            )
        )

    # -- checks -------------------------------------------------------------------------------

    def _check_shape(self, submission: Submission) -> None:
        if submission.job_id is not None and not is_job_id(submission.job_id):
            raise InvalidRequest("job_id", submission.job_id, f"an id is {JOB_ID_RULE}")
        if submission.size > MAX_ELEMENTS:
            raise InvalidRequest("array", submission.size, f"at most {MAX_ELEMENTS} jobs at once")
        if any(not values for _, values in submission.params):
            raise InvalidRequest("params", "", "each parameter needs at least one value")
        if submission.tenant_id not in self._state.ledger.tenants:
            raise _unknown_tenant(self._state, submission.tenant_id)

    def _check_fit(self, submission: Submission) -> None:
        """Before an id is spent on it. The elements of a submission are all of one class."""
        (job, _), *_ = unfold(submission, JobId("new"), 0)
        refuse_what_never_fits(self._state, job, class_of(job))

    def _room(self, state: State) -> int:
        if not self._max_queue_size:
            return MAX_ELEMENTS * 1000
        return self._max_queue_size - state.pending_count()

    def _check_room(self, state: State, count: int) -> None:
        if self._room(state) < count:
            raise _queue_full(self._max_queue_size)

    def _live(self, state: State, job_id: JobId) -> Entry:
        entry = state.entry(job_id)
        if entry is None:
            raise _NotLive(job_id)
        return entry

    async def _change(self, job_id: JobId, decide: Decide[JobState]) -> JobState:
        try:
            return await self._writer.do(decide, [job_id])
        except _NotLive:
            stored = await self._store.job(job_id)
            if stored is None:
                raise not_found(job_id) from None
            raise Conflict(
                f"job {job_id} is over: it {_was(stored)}",
                [{"job_id": job_id, "state": str(stored.progress.state)}],
            ) from None

    async def _open_dependencies(self, submission: Submission) -> tuple[Dependency, ...]:
        """Dependencies that still count; one that can never be met refuses the submission."""
        still_open: dict[JobId, Dependency] = {}
        for dependency in submission.after:
            if dependency.job_id == submission.job_id:
                raise InvalidRequest("after", dependency.job_id, "a job cannot wait for itself")
            if self._state.entry(dependency.job_id) is not None:
                earlier = still_open.get(dependency.job_id)
                if earlier is None or earlier.kind is DependencyKind.ANY:
                    still_open[dependency.job_id] = dependency
                continue
            stored = await self._store.job(dependency.job_id)
            if stored is None:
                raise InvalidRequest("after", dependency.job_id, "there is no such job")
            completed = stored.progress.state is JobState.COMPLETED
            if dependency.kind is DependencyKind.OK and not completed:
                raise InvalidRequest(
                    "after",
                    dependency.job_id,
                    f"that job {_was(stored)}, so this one would never start; "
                    "use after-any to start all the same",
                )
        return tuple(still_open.values())

    async def _earlier(self, unfolded: list[tuple[Job, Detail]]) -> tuple[JobId, ...]:
        """The ids, if exactly these jobs exist already; Duplicate if some differ."""
        job_ids = tuple(job.job_id for job, _ in unfolded)
        known = await self._store.known(job_ids)
        if not known:
            return ()
        for job, detail in unfolded:
            stored = await self._store.job(job.job_id)
            if stored is None or not _same_content(stored, job, detail):
                raise Duplicate(min(known))
        return job_ids

    async def _new_id(self) -> JobId:
        """The next number that no caller has taken as a name."""
        while True:
            self._last_number += 1
            candidate = JobId(str(self._last_number))
            if self._state.entry(candidate) is None and not await self._store.known([candidate]):
                return candidate


class _NotLive(Exception):
    """The job is not in the state: it is over, or never was. Only the store can tell which."""


def not_found(job_id: str) -> NotFound:
    return NotFound("job", job_id, "`tgpu list --all` shows the jobs there are")


def _was(stored: StoredJob) -> str:
    state = stored.progress.state
    return "was cancelled" if state is JobState.CANCELLED else str(state)


def _unknown_tenant(state: State, tenant_id: str) -> InvalidRequest:
    known = ", ".join(sorted(state.ledger.tenants)[:20])
    return InvalidRequest("tenant_id", tenant_id, f"no such tenant; there are: {known}")


def _queue_full(limit: int) -> Unavailable:
    return Unavailable(
        f"the queue is full: {limit} jobs wait (scheduler.max_queue_size); try again later"
    )


def _same_content(stored: StoredJob, job: Job, detail: Detail) -> bool:
    same_time = replace(job, submitted_at=stored.job.submitted_at)
    # Dependencies that were over when it was repeated are dropped, so they cannot be compared.
    return replace(same_time, after=stored.job.after) == stored.job and detail == stored.detail


def _environment(
    base: Mapping[str, str],
) -> tuple[str | None, dict[str, Mapping[str, str]]]:
    """Stored once under its digest: a thousand jobs from one shell share one row."""
    if not base:
        return None, {}
    text = json.dumps(sorted(base.items()), ensure_ascii=True)
    env_id = hashlib.sha256(text.encode()).hexdigest()[:32]
    return env_id, {env_id: dict(base)}
