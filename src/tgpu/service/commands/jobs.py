"""The commands on jobs: submit, cancel, hold, release, priority, complete, checkpoint, rerun."""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tgpu.core.errors import (
    Conflict,
    Duplicate,
    IllegalMove,
    InvalidRequest,
    NotFound,
    SchedulerError,
    Unavailable,
)
from tgpu.core.model import lifecycle
from tgpu.core.model.events import JobChanged, JobMoved, JobsSubmitted
from tgpu.core.model.ids import DEFAULT_QUEUE, JOB_ID_RULE, JobId, TenantId, is_job_id
from tgpu.core.model.job import (
    Dependency,
    DependencyKind,
    Detail,
    Job,
    JobClass,
    Options,
    class_of,
)
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.units import GPU, GPU_STEP, gpus_text
from tgpu.core.state.cluster_state import Entry, State
from tgpu.service.commands.by_memory import counted_by_memory
from tgpu.service.commands.feasibility import refuse_what_never_fits
from tgpu.service.commands.job_changes import (
    cancel_job,
    hold_job,
    pause_job,
    rerank_job,
    resume_job,
)
from tgpu.service.commands.job_fields import with_edits
from tgpu.service.commands.job_numbers import JobNumbers
from tgpu.service.commands.sealed_once import SealedOnce
from tgpu.service.commands.submission import (
    MAX_CHARACTERS,
    MAX_ELEMENTS,
    TOO_MUCH,
    Submission,
    unfold,
)
from tgpu.service.identity.ownership import Sight, no_job
from tgpu.service.reads.reservations import named
from tgpu.service.reads.tenants import queues_of
from tgpu.service.recording.by_whom import CANCELLED
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.writer import Decide, Decision, StateApart, Writer
from tgpu.service.secrets.sealing import CannotUnseal, Sealer
from tgpu.service.secrets.sealing_key import key_document
from tgpu.store.api import JobQuery, Store, StoredJob, StoreUnavailable
from tgpu.store.event_codec import decode_event
from tgpu.text.instants import utc_text
from tgpu.text.plurals import plural

# As many as a request may name one by one: each job keeps the list of those it waits for.
_MOST_DEPENDENCIES: Final = 10_000
_MOST_ROWS: Final = 1_000  # of a job's journal that are looked through


@dataclass(frozen=True, slots=True)
class Submitted:
    """The ids of a submission's jobs, in order. `repeated`: they were there already."""

    base_id: JobId
    job_ids: tuple[JobId, ...]
    repeated: bool = False
    notes: tuple[str, ...] = ()  # what was decided for the caller: the size


class _Named(NamedTuple):
    """A job that another one waits for; `over`: as it is on record, where it is not live."""

    job: Job
    over: StoredJob | None


Prepare = Callable[[Submission], tuple[Submission, tuple[str, ...]]]


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
        step_millis: int = GPU_STEP,
        gangs: bool = True,
        prepare: Prepare | None = None,
        refuse: Callable[[], None] = lambda: None,
        sealer: Sealer,
        key_recorded: bool = False,
    ) -> None:
        """`prepare` makes the size and the command that a submission only describes; `refuse`
        raises where nothing new can be taken. `key_recorded`: whether the store has the name of
        the sealer's key already.
        """
        self._prepare = prepare
        self._refuse = refuse
        self._sealer = sealer
        self._key_recorded = key_recorded
        self._state = state
        self._writer = writer
        self._store = store
        self._clock = clock
        self._max_queue_size = max_queue_size
        self._leases_only = leases_only  # there is no engine: commands are kept, not run
        self._numbers = JobNumbers(store, last_number)
        self._step_millis = step_millis
        self._gangs = gangs  # whether jobs may have several workers

    @property
    def last_number(self) -> int:
        """The highest that a job or an array was given."""
        return self._numbers.recorded

    async def submit(self, submission: Submission) -> Submitted:
        """Queue the jobs of one submission, all of them or none."""
        submission, notes = self._prepared(submission)
        return replace(await self._submit(submission), notes=notes)

    async def rehearse(self, submission: Submission) -> tuple[list[Job], tuple[str, ...]]:
        """The jobs that `submit` would queue now, with its notes, or what it would raise; nothing
        is queued and no id is spent."""
        submission, notes = self._prepared(submission)
        submission = await self._completed(submission)
        if not await self._earlier(submission):
            submission = replace(submission, after=await self._open_dependencies(submission))
            self._check_still_possible(submission)
            self._check_fit(submission)
            self._check_room(self._state, submission.size)
        base_id = submission.job_id or JobId("new")
        return [job for job, _ in unfold(submission, base_id, self._clock.now())], notes

    async def changed(
        self, job: Job, submission: Submission, *, has_after: bool, has_limit: bool
    ) -> tuple[Job, tuple[str, ...]]:
        """A waiting job as the submission has it, checked as one, with its notes.

        What is as it was is not asked about again: a deadline may have passed, a GPU may be gone.
        """
        user, was = job.options.user, job.options
        detail = Detail(user=user, argv=() if was.lease else ("-",))
        after = submission.after if has_after else ()
        submission, notes = self._prepared(replace(submission, detail=detail, after=after))
        submission = await self._completed(submission)
        if not has_limit:
            submission = replace(
                submission, options=replace(submission.options, time_limit_ms=was.time_limit_ms)
            )
        options = submission.options
        self._check_still_possible(
            replace(submission, options=_only_new(options, was)),
        )
        open_after = await self._open_dependencies(submission) if has_after else job.after
        assert submission.priority is not None  # by now
        made = replace(
            job,
            priority=submission.priority,
            request=submission.request,
            queue=submission.queue,
            options=replace(options, lease=was.lease),
            after=open_after,
        )
        if class_of(replace(made, priority=job.priority)) != class_of(job):
            refuse_what_never_fits(self._state, made, class_of(made))
        return made, notes

    def sealed_name(self, name: str) -> str:
        """As it is put on record."""
        return self._sealer.sealed(Detail(name=name), (), {})[0].name

    def _prepared(self, submission: Submission) -> tuple[Submission, tuple[str, ...]]:
        notes: tuple[str, ...] = ()
        if self._prepare is not None:
            submission, notes = self._prepare(submission)
        nodes = (use.node for use in self._state.ledger.nodes.values())
        submission, note = counted_by_memory(submission, nodes)
        return submission, (*notes, note) if note else notes

    async def _completed(self, submission: Submission) -> Submission:
        """With what it leaves to the service."""
        self._check_shape(submission)
        submission = replace(submission, after=await self._with_arrays_unfolded(submission))
        if submission.priority is None:
            tenant = self._state.ledger.tenant(submission.tenant_id).tenant
            submission = replace(submission, priority=tenant.usual_priority)
        if self._leases_only or not submission.detail.argv:
            submission = replace(submission, options=replace(submission.options, lease=True))
        booking = submission.options.booking
        if booking is not None and (found := named(self._state, booking, (submission.tenant_id,))):
            options = replace(submission.options, booking=found.booking_id)
            submission = replace(submission, options=options)
        if submission.options.user != submission.detail.user:
            options = replace(submission.options, user=submission.detail.user)
            submission = replace(submission, options=options)
        return submission

    async def _submit(self, submission: Submission) -> Submitted:
        submission = await self._completed(submission)
        submission, environments = self._sealed(submission, secrets.token_hex(16))
        while True:
            # First of all: a repeated request is answered as before, whatever has changed since.
            if earlier := await self._earlier(submission):
                return earlier
            try:
                return await self._queue(submission, environments)
            except _DependencyEnded:
                continue
            except Duplicate:
                # Taken meanwhile: by the same request sent twice, or by a caller's name for the
                # number we had chosen.
                if submission.job_id is not None and not await self._earlier(submission):
                    raise

    async def submit_together(self, groups: Sequence[Sequence[Submission]]) -> list[Submitted]:
        """Queue them in one commit, all or none: a group of several becomes one array."""
        self._refuse()
        ready: list[list[Submission]] = []
        environments: dict[str, Mapping[str, str]] = {}
        seen, sealing = set[JobClass](), SealedOnce(self._sealed, secrets.token_hex(16))
        for group in groups:
            ready.append([])
            for submission in group:
                made, _ = self._prepared(submission)
                made = await self._completed(made)
                self._check_still_possible(made)
                self._check_fit(made, seen)
                made, added = sealing.sealed(made)
                environments |= added
                ready[-1].append(made)
                await asyncio.sleep(0)  # there may be thousands
        return await self._queue_together(ready, environments)

    async def _queue_together(
        self,
        groups: Sequence[Sequence[Submission]],
        environments: Mapping[str, Mapping[str, str]],
    ) -> list[Submitted]:
        base_ids = [await self._numbers.take() for _ in groups]
        with self._given_back(base_ids):
            return await self._queue_as_all(groups, environments, base_ids)

    async def _queue_as_all(
        self,
        groups: Sequence[Sequence[Submission]],
        environments: Mapping[str, Mapping[str, str]],
        base_ids: Sequence[JobId],
    ) -> list[Submitted]:
        now = self._clock.now()
        unfolded = [
            [pair for submission in group for pair in unfold(submission, base_id, now)]
            for group, base_id in zip(groups, base_ids, strict=True)
        ]
        pairs = [pair for group in unfolded for pair in group]
        submissions = [submission for group in groups for submission in group]
        documents: dict[tuple[str, str], bytes | None] = {}
        for submission in submissions:
            documents |= self._documents(submission, JobId(""))

        def decide(state: State) -> Decision[list[Submitted]]:
            for job, _ in pairs:
                if state.entry(job.job_id) is not None:
                    raise Duplicate(job.job_id)
            self._check_room(state, len(pairs))
            done = [
                Submitted(base_id, tuple(job.job_id for job, _ in group))
                for base_id, group in zip(base_ids, unfolded, strict=True)
            ]
            event = JobsSubmitted(now, tuple(job for job, _ in pairs))
            details = {job.job_id: detail for job, detail in pairs}
            numbers = self._numbers.documents(max(base_ids, key=int))
            return Decision(
                done, [event], details, environments, documents={**documents, **numbers}
            )

        done = await self._writer.do(decide, [job.job_id for job, _ in pairs])
        self._key_recorded |= bool(documents)
        return done

    @contextmanager
    def _given_back(self, numbers: Sequence[JobId]) -> Iterator[None]:
        """Numbers that nothing was recorded under are there for others."""
        try:
            yield
        except (SchedulerError, _DependencyEnded) as error:
            is_unknown = isinstance(error, StoreUnavailable) and not error.is_outcome_known
            # A duplicate: what callers named is in the way of this number, and stays there.
            if not is_unknown and not isinstance(error, StateApart | Duplicate):
                for number in numbers:
                    self._numbers.give_back(number)
            raise

    def _sealed(
        self, submission: Submission, nonce: str
    ) -> tuple[Submission, dict[str, Mapping[str, str]]]:
        """As it is stored, and the environment that is stored beside it."""
        env_id, environments = self._environment(submission.base_environment)
        detail, params = self._sealer.sealed(
            submission.detail, submission.params, submission.base_environment
        )
        detail = replace(detail, env_id=env_id)
        return replace(submission, detail=detail, params=params, nonce=nonce), environments

    async def _queue(
        self, submission: Submission, environments: Mapping[str, Mapping[str, str]]
    ) -> Submitted:
        self._refuse()
        submission = replace(submission, after=await self._open_dependencies(submission))
        self._check_still_possible(submission)
        self._check_fit(submission)
        number = await self._numbers.take() if submission.job_id is None else None
        with self._given_back([] if number is None else [number]):
            return await self._queue_as(submission, environments, number)

    async def _queue_as(
        self,
        submission: Submission,
        environments: Mapping[str, Mapping[str, str]],
        number: JobId | None,
    ) -> Submitted:
        base_id = number or submission.job_id or JobId("")
        now = self._clock.now() if submission.submitted_at is None else submission.submitted_at
        unfolded = unfold(submission, base_id, now)
        job_ids = tuple(job.job_id for job, _ in unfolded)
        if not is_job_id(job_ids[-1]):
            raise InvalidRequest("job_id", base_id, "is too long to add the indexes of its array")

        def decide(state: State) -> Decision[Submitted]:
            jobs = tuple(job for job, _ in unfolded)
            for job in jobs:
                if state.entry(job.job_id) is not None:
                    raise Duplicate(job.job_id)
            self._check_room(state, len(jobs))
            if any(state.entry(dependency.job_id) is None for dependency in submission.after):
                raise _DependencyEnded
            held = frozenset(job_ids) if submission.held else frozenset()
            return Decision(
                Submitted(base_id, job_ids),
                [JobsSubmitted(now, jobs, held)],
                {job.job_id: detail for job, detail in unfolded},
                environments,
                documents={
                    **self._documents(submission, base_id),
                    **self._numbers.documents(number),
                },
            )

        touches = {*job_ids, *(d.job_id for d in submission.after)}
        done = await self._writer.do(decide, touches)
        self._key_recorded |= bool(submission.detail.env_id) or _is_sealed(submission)
        return done

    def _documents(
        self, submission: Submission, base_id: JobId
    ) -> Mapping[tuple[str, str], bytes | None]:
        own = submission.documents(base_id) if submission.documents else {}
        if self._key_recorded or not (submission.detail.env_id or _is_sealed(submission)):
            return own
        return {**own, **key_document(self._sealer)}

    async def submit_plain(self, jobs: Sequence[Job]) -> list[SchedulerError | None]:
        """Queue leases in bulk, each for itself: an error at the place of each refused one.

        The fast path: no dependencies, no details, and a job that can never fit is queued.
        """
        self._refuse()
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
                elif not tenants[job.tenant_id].tenant.active:
                    error = _inactive_tenant(job.tenant_id)
                elif len(accepted) >= room:
                    error = _queue_full(self._max_queue_size)
                else:
                    accepted.append(job)
                    seen.add(job.job_id)
                errors.append(error)
            events = [JobsSubmitted(self._clock.now(), tuple(accepted))] if accepted else []
            return Decision(errors, events)

        return await self._writer.do(decide, [job.job_id for job in jobs])

    async def cancel(self, job_id: JobId, cause: str = CANCELLED) -> JobState:
        """End a job for good. The state it is in then: a running one takes its grace to end."""

        def decide(state: State) -> Decision[JobState]:
            move = cancel_job(self._live(state, job_id), self._clock.now(), cause)
            return Decision(move.progress.state, [move])

        return await self._change(job_id, decide)

    async def hold(self, job_id: JobId, *, held: bool) -> JobState:
        def decide(state: State) -> Decision[JobState]:
            move = hold_job(self._live(state, job_id), self._clock.now(), held=held)
            return Decision(move.progress.state, [move])

        return await self._change(job_id, decide)

    async def pause(self, job_id: JobId, *, paused: bool) -> JobState:
        """Have a running job stand still, or go on; its GPUs stay its own."""

        def decide(state: State) -> Decision[JobState]:
            entry, now = self._live(state, job_id), self._clock.now()
            move = pause_job(entry, now) if paused else resume_job(entry, now)
            return Decision(entry.progress.state, [] if move is None else [move])

        return await self._change(job_id, decide)

    async def rerank(self, job_id: JobId, priority: int) -> JobState:
        """Give a waiting job another priority; it stays as old as it is."""

        def decide(state: State) -> Decision[JobState]:
            entry = self._live(state, job_id)
            change = rerank_job(entry, self._clock.now(), priority)
            return Decision(entry.progress.state, [] if change is None else [change])

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

    async def checkpoint(self, job_id: JobId) -> JobState:
        """Note that a running job has saved its work: what it did so far is not lost any more."""

        def decide(state: State) -> Decision[JobState]:
            entry = self._live(state, job_id)
            now = self._clock.now()
            marked = lifecycle.checkpoint(job_id, entry.progress, now)
            return Decision(marked.state, [JobMoved(now, job_id, Move.CHECKPOINT, marked)])

        return await self._change(job_id, decide)

    async def rerun(
        self,
        job_id: JobId,
        *,
        detail: Detail | None = None,
        with_environment: bool = True,
        most: Callable[[TenantId], int | None] = lambda _: None,
    ) -> Submitted:
        """A new job with the content of an old one, whatever became of that.

        `most`: the highest priority that whoever asks may give; a job that had more gets that.
        `detail` says whose it is and as whom it runs (see rerun.py); as the old one by default.
        """
        stored = await self._store.job(job_id)
        if stored is None:
            raise not_found(job_id)
        again = await self.once_more(stored, detail, with_environment, most(stored.job.tenant_id))
        submitted = await self.submit(again)
        if again.priority == stored.job.priority:
            return submitted
        return replace(submitted, notes=(*submitted.notes, lowered(again, stored.job.priority)))

    async def once_more(
        self,
        stored: StoredJob,
        detail: Detail | None = None,
        with_environment: bool = True,
        highest: int | None = None,
        known: dict[str, Mapping[str, str]] | None = None,
    ) -> Submission:
        """What to submit to run a job again. `known`: environments that were read before, by id."""
        job, env_id = stored.job, stored.detail.env_id
        if detail is not None and not with_environment:
            self._check_nothing_lost(detail)
        return Submission(
            request=job.request,
            tenant_id=job.tenant_id,
            priority=job.priority if highest is None else min(job.priority, highest),
            queue=job.queue,
            options=self._once_more(job.options),
            element_of=job.array,
            detail=self._readable(detail or replace(stored.detail, rerun_of=job.job_id)),
            base_environment=await self._variables(env_id if with_environment else None, known),
        )

    def _readable(self, detail: Detail) -> Detail:
        try:
            return self._sealer.unsealed(detail)
        except CannotUnseal as error:
            raise _unreadable(error) from None

    def _check_nothing_lost(self, detail: Detail) -> None:
        """Before somebody else runs it again."""
        try:
            lost = self._sealer.lost(detail)
        except CannotUnseal as error:
            raise _unreadable(error) from None
        if lost:
            raise Conflict(
                "its command, name or parameters contain a secret of its owner, so nobody else "
                "can run it again: submit it again with your own secret"
            )

    async def _variables(
        self, env_id: str | None, known: dict[str, Mapping[str, str]] | None = None
    ) -> Mapping[str, str]:
        if known is not None and (env_id or "") in known:
            return known[env_id or ""]
        try:
            stored = await self._store.environment(env_id) if env_id else {}
            found = self._sealer.opened(stored)
        except CannotUnseal as error:
            raise _unreadable(error) from None
        if known is not None:
            known[env_id or ""] = found
        return found

    # -- checks -------------------------------------------------------------------------------

    def _check_shape(self, submission: Submission) -> None:
        if submission.job_id is not None and not is_job_id(submission.job_id):
            raise InvalidRequest("job_id", submission.job_id, f"an id is {JOB_ID_RULE}")
        if submission.size > MAX_ELEMENTS:
            raise InvalidRequest("array", submission.size, f"at most {MAX_ELEMENTS} jobs at once")
        if submission.characters > MAX_CHARACTERS:
            raise InvalidRequest("array", submission.size, TOO_MUCH)
        each, _, _ = submission.request.of_a_worker()
        if each % GPU % self._step_millis:  # whole GPUs are always possible
            step = gpus_text(self._step_millis)
            raise InvalidRequest("gpu_count", gpus_text(each), f"GPUs come in steps of {step}")
        if any(not values for _, values in submission.params):
            raise InvalidRequest("params", "", "each parameter needs at least one value")
        if submission.request.workers > 1 and not self._gangs:
            remedy = "must be 1: scheduler.enable_gang_scheduling is false here"
            raise InvalidRequest("workers", submission.request.workers, remedy)
        if submission.tenant_id not in self._state.ledger.tenants:
            raise _unknown_tenant(self._state, submission.tenant_id)
        if not self._state.ledger.tenant(submission.tenant_id).tenant.active:
            raise _inactive_tenant(submission.tenant_id)
        if submission.queue != DEFAULT_QUEUE and (
            self._state.ledger.queue(submission.tenant_id, submission.queue) is None
        ):
            names = [queue.name for queue in queues_of(self._state, submission.tenant_id)]
            raise InvalidRequest(
                "queue", submission.queue, f"no such queue; there are: {', '.join(names)}"
            )

    def _check_fit(self, submission: Submission, seen: set[JobClass] | None = None) -> None:
        """Before an id is spent on it. The elements of a submission are all of one class; classes
        that were `seen` are not looked at again."""
        one = replace(
            submission,
            indexes=submission.indexes[:1],
            params=tuple((name, values[:1]) for name, values in submission.params),
        )
        ((job, _),) = unfold(one, JobId("new"), 0)
        job_class = class_of(job)
        if seen is None or job_class not in seen:
            refuse_what_never_fits(self._state, job, job_class)
        if seen is not None:
            seen.add(job_class)

    def _check_still_possible(self, submission: Submission) -> None:
        """What depends on when it is asked: a deadline to come, a reservation that is there."""
        options = submission.options
        if options.deadline_at is not None and options.deadline_at <= self._clock.now():
            at = utc_text(options.deadline_at)
            raise InvalidRequest("deadline", at, "is in the past; give a later one, or none")
        if options.booking is not None:
            self._check_booking(submission.tenant_id, options.booking)

    def _check_booking(self, tenant_id: TenantId, name: str) -> None:
        # That of another tenant is nobody's business: it is answered like one that is not there.
        if named(self._state, name, (tenant_id,)) is None:
            bookings = self._state.ledger.bookings.values()
            there_are = sorted(b.booking_id for b in bookings if b.tenant_id == tenant_id)
            known = ", ".join(there_are[:20]) or "none"
            remedy = f"tenant {tenant_id} has no such reservation; there are: {known}"
            raise InvalidRequest("reservation", name, remedy)

    def _once_more(self, options: Options) -> Options:
        """For a job that is run again: what has passed since no longer binds it."""
        if options.deadline_at is not None and options.deadline_at <= self._clock.now():
            options = replace(options, deadline_at=None)
        if options.booking is not None and options.booking not in self._state.ledger.bookings:
            options = replace(options, booking=None)
        return options

    def _room(self, state: State) -> int:
        if not self._max_queue_size:
            return MAX_ELEMENTS * 1000
        return self._max_queue_size - state.pending_count() - self._writer.joining

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

    async def _with_arrays_unfolded(self, submission: Submission) -> tuple[Dependency, ...]:
        """The id of an array or sweep stands for all its elements that the caller may see."""
        unfolded: list[Dependency] = []
        for dependency in submission.after:
            job_id = dependency.job_id
            if await self._named(job_id, submission.sight) is None:
                elements = await self._elements(job_id, submission.sight)
                unfolded += [Dependency(element, dependency.kind) for element in elements]
            else:
                unfolded.append(dependency)
        return tuple(unfolded)

    async def _named(self, job_id: JobId, sight: Sight) -> _Named | None:
        """A job that a dependency may name; None where there is none for this caller to see."""
        entry = self._state.entry(job_id)
        if entry is not None:
            found = _Named(entry.job, None)
        else:
            stored = await self._store.job(job_id)
            if stored is None:
                return None
            found = _Named(stored.job, stored)
        return found if sight.sees_job(found.job) else None

    async def _elements(self, array_id: JobId, sight: Sight) -> list[JobId]:
        """All elements of an array, over or not; an id that is none stays as it is."""
        found: list[JobId] = []
        before: int | None = None
        while True:
            query = JobQuery(array_id=array_id, before=before, limit=1000)
            page = await self._store.jobs(sight.narrowed(query))
            found += [stored.job.job_id for stored in page]
            if len(found) > _MOST_DEPENDENCIES:
                raise InvalidRequest(
                    "after", array_id, f"it has more than {_MOST_DEPENDENCIES} elements"
                )
            if not page:
                return sorted(found) or [array_id]
            before = page[-1].number

    async def _open_dependencies(self, submission: Submission) -> tuple[Dependency, ...]:
        """Dependencies that still count; one that can never be met refuses the submission."""
        still_open: list[Dependency] = []
        for job_id, kind in _strictest(submission.after).items():
            if job_id == submission.job_id:
                raise InvalidRequest("after", job_id, "a job cannot depend on itself")
            named = await self._named(job_id, submission.sight)
            if named is None:
                raise InvalidRequest("after", job_id, "there is no such job")
            stored = named.over
            if stored is None:
                still_open.append(Dependency(job_id, kind))
                continue
            if kind is DependencyKind.OK and stored.progress.state is not JobState.COMPLETED:
                raise InvalidRequest(
                    "after",
                    job_id,
                    f"that job {_was(stored)}, so this one would never start; use after-any to "
                    "start anyway",
                )
        return tuple(still_open)

    async def _earlier(self, submission: Submission) -> Submitted | None:
        """The answer given before, if exactly these jobs exist; Duplicate if some differ."""
        if submission.job_id is None:
            return None
        unfolded = unfold(submission, submission.job_id, 0)
        job_ids = tuple(job.job_id for job, _ in unfolded)
        known = await self._store.known(job_ids)
        if not known:
            return None
        for job, detail in unfolded:
            stored = await self._store.job(job.job_id)
            if stored is not None and not self._is_same(
                stored, job, detail, submission.base_environment
            ):
                edited = await self._edited(stored.job.job_id)
                job, detail = with_edits(job, detail, stored, edited)
            if stored is None or not self._is_same(
                stored, job, detail, submission.base_environment
            ):
                raise Duplicate(min(known))
        return Submitted(submission.job_id, job_ids, repeated=True)

    async def _edited(self, job_id: JobId) -> frozenset[str]:
        """The fields that were changed since it came; earlier versions changed priorities alone."""
        rows = await self._store.journal(0, _MOST_ROWS, job_id)
        events = (decode_event(row.kind, row.payload) for row in rows if row.kind == "job_changed")
        changes = [
            e.changes or (("priority", "", ""),) for e in events if isinstance(e, JobChanged)
        ]
        return frozenset(name for change in changes for name, _, _ in change)

    def _is_same(
        self, stored: StoredJob, job: Job, detail: Detail, base: Mapping[str, str]
    ) -> bool:
        was = stored.job
        asked, kept = _strictest(job.after), _strictest(was.after)
        if not kept.items() <= asked.items():
            return False
        # Those over when it was submitted were dropped; one that is not over now was not then.
        if any(self._state.entry(job_id) is not None for job_id in asked.keys() - kept.keys()):
            return False
        same = replace(job, submitted_at=was.submitted_at, after=was.after, nonce=was.nonce)
        if not stored.detail.owner:  # of a version that did not write it down
            detail = replace(detail, owner="", account="", uid=stored.detail.uid)
        return same == was and self._is_same_detail(stored.detail, detail, base)

    def _is_same_detail(self, was: Detail, now: Detail, base: Mapping[str, str]) -> bool:
        """Under whatever key each is sealed, and as an earlier version stored it, readable."""
        if was.env_id != now.env_id and was.env_id in self._sealer.env_ids(base):
            now = replace(now, env_id=was.env_id)
        try:
            return self._sealer.unsealed(was) == self._sealer.unsealed(now)
        except CannotUnseal:
            return was == now

    def _environment(
        self, base: Mapping[str, str]
    ) -> tuple[str | None, dict[str, Mapping[str, str]]]:
        """Stored once under its id: a thousand jobs from one shell share one row."""
        if not base:
            return None, {}
        env_id, content = self._sealer.environment(base)
        return env_id, {env_id: content}


def _only_new(options: Options, was: Options) -> Options:
    """Without what it had before."""
    deadline = None if options.deadline_at == was.deadline_at else options.deadline_at
    booking = None if options.booking == was.booking else options.booking
    return replace(options, deadline_at=deadline, booking=booking)


class _DependencyEnded(Exception):
    """A job to wait for ended while this one was on its way: look again at how it ended."""


class _NotLive(Exception):
    """The job is not in the state: it is over, or never was. Only the store can tell which."""


def lowered(again: Submission, was: int) -> str:
    """For who may not give a rerun the priority that the job had."""
    return f"it has priority {again.priority}, the highest you may set, instead of {was}"


def not_found(job_id: str) -> NotFound:
    return no_job(job_id)


def _was(stored: StoredJob) -> str:
    state = stored.progress.state
    return "was cancelled" if state is JobState.CANCELLED else str(state)


def _unknown_tenant(state: State, tenant_id: str) -> InvalidRequest:
    known = ", ".join(sorted(state.ledger.tenants)[:20])
    return InvalidRequest("tenant_id", tenant_id, f"no such tenant; there are: {known}")


def _inactive_tenant(tenant_id: str) -> Conflict:
    return Conflict(f"tenant {tenant_id} is not active and accepts no jobs")


def _queue_full(limit: int) -> Unavailable:
    return Unavailable(
        f"the queue is full: it holds {plural(limit, 'job')} (scheduler.max_queue_size); "
        "try again later"
    )


def _strictest(after: Sequence[Dependency]) -> dict[JobId, DependencyKind]:
    """Each job once; of two kinds for one job the stricter holds."""
    found: dict[JobId, DependencyKind] = {}
    for dependency in after:
        if found.get(dependency.job_id) is not DependencyKind.OK:
            found[dependency.job_id] = dependency.kind
    return found


def _is_sealed(submission: Submission) -> bool:
    detail = submission.detail
    values = (*detail.argv, *(value for _, value in detail.env), detail.name)
    swept = (value for _, values in submission.params for value in values)
    return any("sealed:" in text for text in (*values, *swept))


def _unreadable(error: CannotUnseal) -> Conflict:
    return Conflict(f"its secrets cannot be read: {error}; submit it again")
