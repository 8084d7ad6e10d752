"""The command `edit`: changes waiting jobs in one commit, checked like a submission."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tgpu.core.errors import Conflict, InvalidRequest
from tgpu.core.model.events import JobChanged
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import JobState
from tgpu.core.state.cluster_state import Entry, State
from tgpu.service.commands.job_fields import NOTHING, differences
from tgpu.service.commands.jobs import JobCommands
from tgpu.service.commands.submission import Submission
from tgpu.service.identity.ownership import SEES_ALL, Sight
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import Store
from tgpu.text.masking import mask_text

_MOST_TRIES = 20  # against others who edit the same jobs again and again


@dataclass(frozen=True, slots=True)
class Edit:
    """What is to be another: `made` gives a job as a submission that has the new values."""

    made: Callable[[Job], Submission]
    name: str | None = None
    has_after: bool = False
    has_limit: bool = False
    sight: Sight = SEES_ALL


@dataclass(frozen=True, slots=True)
class Edited:
    """`changes` of the first that was changed; `left` had started, or were over."""

    changed: tuple[JobId, ...]
    left: int
    changes: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Planned:
    before: Job
    after: Job
    name: tuple[str, str] | None  # before and after, as they are on record


class _Moved(Exception):
    """A job, or one that it is to wait for, has changed since: look again."""


class Editing:
    def __init__(
        self, jobs: JobCommands, state: State, writer: Writer, store: Store, clock: Clock
    ) -> None:
        self._jobs = jobs
        self._state = state
        self._writer = writer
        self._store = store
        self._clock = clock

    async def edit(self, job_ids: Sequence[JobId], edit: Edit) -> Edited:
        """All of them that wait, or none. Conflict where none does."""
        for _ in range(_MOST_TRIES):
            planned, notes = await self._plan(job_ids, edit)
            if not planned:
                raise self._nothing_waits(job_ids)
            touches = set(planned)
            touches |= {d.job_id for plan in planned.values() for d in plan.after.after}

            def decide(
                state: State, planned: dict[JobId, _Planned] = planned
            ) -> Decision[list[JobChanged]]:
                events = list(self._events(state, planned, edit))
                return Decision(events, events)

            try:
                events = await self._writer.do(decide, touches)
            except _Moved:
                continue
            left = len(job_ids) - len(planned)
            changes = events[0].changes if events else ()
            return Edited(tuple(planned), left, changes, notes)
        raise Conflict("these jobs are being changed by others; try again")

    async def _plan(
        self, job_ids: Sequence[JobId], edit: Edit
    ) -> tuple[dict[JobId, _Planned], tuple[str, ...]]:
        """Elements of an array are alike, and are looked at once."""
        planned: dict[JobId, _Planned] = {}
        notes: tuple[str, ...] = ()
        known: dict[tuple[object, ...], Job] = {}
        for job_id in job_ids:
            entry = self._state.entry(job_id)
            if entry is None or not _waits(entry):
                continue
            job = entry.job
            key = (job.tenant_id, job.queue, job.priority, job.request, job.options, job.after)
            if key not in known:
                wanted = edit.made(job)
                known[key], notes = await self._jobs.changed(
                    job,
                    Submission(
                        request=wanted.request,
                        tenant_id=job.tenant_id,
                        priority=wanted.priority,
                        queue=wanted.queue,
                        options=wanted.options,
                        after=wanted.after,
                        sight=edit.sight,
                    ),
                    has_after=edit.has_after,
                    has_limit=edit.has_limit,
                )
            made = known[key]
            name = await self._names(job_id, edit)
            planned[job_id] = _Planned(job, _as(job, made), name)
        return planned, notes

    async def _names(self, job_id: JobId, edit: Edit) -> tuple[str, str] | None:
        if edit.name is None:
            return None
        stored = await self._store.job(job_id)
        before = "" if stored is None else stored.detail.name
        after = self._jobs.sealed_name(edit.name)
        return None if before == after else (before, after)

    def _events(
        self, state: State, planned: dict[JobId, _Planned], edit: Edit
    ) -> Iterator[JobChanged]:
        now = self._clock.now()
        for job_id, plan in planned.items():
            entry = state.entry(job_id)
            if entry is None or not _waits(entry) or entry.job is not plan.before:
                raise _Moved
            if any(state.entry(d.job_id) is None for d in plan.after.after if edit.has_after):
                raise _Moved
            if plan.after.request != plan.before.request and entry.progress.claim is not None:
                raise Conflict(
                    f"job {job_id} is about to start: other jobs are being preempted for it",
                    [{"job_id": job_id, "state": "pending"}],
                )
            _refuse_circle(state, planned, plan)
            changes = [*differences(plan.before, plan.after)]
            if plan.name is not None:
                before, after = (mask_text(name) or NOTHING for name in plan.name)
                changes.append(("name", before, after))
            if changes:
                name = None if plan.name is None else plan.name[1]
                yield JobChanged(now, plan.after, name=name, changes=tuple(changes))

    def _nothing_waits(self, job_ids: Sequence[JobId]) -> Conflict:
        entries = [(job_id, self._state.entry(job_id)) for job_id in job_ids]
        if len(entries) > 1:
            return Conflict(f"none of these {len(entries)} jobs is still waiting")
        job_id, entry = entries[0]
        state = "over" if entry is None else str(entry.progress.state)
        return Conflict(
            f"job {job_id} is {state}: only a waiting job can be changed",
            [{"job_id": job_id, "state": state}],
        )


def _waits(entry: Entry) -> bool:
    return entry.progress.state is JobState.PENDING


def _as(job: Job, made: Job) -> Job:
    """This element of an array as the one that was looked at."""
    return replace(
        job,
        priority=made.priority,
        request=made.request,
        queue=made.queue,
        options=made.options,
        after=made.after,
    )


def _refuse_circle(state: State, planned: dict[JobId, _Planned], plan: _Planned) -> None:
    """A job that waits for itself, over however many others, would never start."""
    if plan.after.after == plan.before.after:
        return
    seen: set[JobId] = set()
    waiting = [(d.job_id, d.job_id) for d in plan.after.after]
    while waiting:
        job_id, first = waiting.pop()
        if job_id in planned:
            remedy = "a job cannot depend on itself"
            if job_id != first:
                remedy = f"job {job_id} waits for it; that would be a circular dependency"
            raise InvalidRequest("after", first, remedy)
        entry = state.entry(job_id)
        if entry is None or job_id in seen:
            continue
        seen.add(job_id)
        waiting += [(d.job_id, first) for d in entry.job.after]
