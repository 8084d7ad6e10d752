"""Reruns a selection of jobs in one commit; jobs of an array become a new array.

What a rerun has taken over already is left alone, unless it is asked for: to run an array again
after a rerun of it failed, run again the rerun.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from tgpu.core.errors import InvalidRequest, NotFound, SchedulerError
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState
from tgpu.service.commands.jobs import JobCommands, Submitted, lowered, not_found
from tgpu.service.commands.selection import Refusal, Selection, elements_of, raise_refused
from tgpu.service.commands.submission import MAX_CHARACTERS, MAX_ELEMENTS, TOO_MUCH, Submission
from tgpu.service.recording import audit
from tgpu.store.api import JobQuery, Store, StoredJob
from tgpu.text.plurals import plural

_PAGE: Final = 1_000

# How a caller runs this job again.
Again = Callable[[StoredJob], Awaitable[Submission]]


@dataclass(frozen=True, slots=True)
class RerunChoice:
    """Which of the jobs of a selection are run again."""

    selection: Selection
    ended_since: int | None = None  # over at this instant or later
    failures: frozenset[str] = frozenset()
    again: bool = False  # also what was run again before

    def matches(self, stored: StoredJob) -> bool:
        if not self.selection.matches(stored.job):
            return False
        progress = stored.progress
        if self.ended_since is not None and (progress.ended_at or 0) < self.ended_since:
            return False
        if self.selection.name_contains not in stored.detail.name:
            return False
        return not self.failures or progress.fault in self.failures


@dataclass(frozen=True, slots=True)
class Rerun:
    """New jobs, and the job or array that they run again."""

    of: str
    submitted: Submitted
    is_array: bool


@dataclass(slots=True)
class Reran:
    reruns: list[Rerun] = field(default_factory=list)
    before: dict[str, int] = field(default_factory=dict)  # run again before, as these: how many
    others: Counter[JobState] = field(default_factory=Counter)  # of the named, in other states
    notes: list[str] = field(default_factory=list)


class RerunSelections:
    def __init__(self, jobs: JobCommands, store: Store) -> None:
        self._jobs = jobs
        self._store = store
        self._one_at_a_time = asyncio.Lock()  # or two would take the same jobs over

    async def rerun(self, wanted: RerunChoice, refusal: Refusal, again: Again) -> Reran:
        """Raises NotFound, and the refusals of jobs that were named."""
        async with self._one_at_a_time:
            done = Reran()
            found = await self._found(wanted, refusal, done)
            groups = _groups(found, wanted.selection.names)
            submissions = [
                [replace(await again(stored), suffix=suffix) for suffix, stored in group]
                for group in groups.values()
            ]
            _check_size(submissions)
            trail = audit.current()
            if trail is not None and found:
                trail.target = wanted.selection.told()
                trail.detail = f"rerun: {plural(len(found), 'job')}"
            submitted = await self._jobs.submit_together(submissions) if found else []
        for (of, group), each in zip(groups.items(), submitted, strict=True):
            done.reruns.append(Rerun(of, each, bool(group[0][0])))
        done.notes = _notes(submissions, groups.values())
        done.others = +done.others  # without those that are zero
        return done

    async def _found(self, wanted: RerunChoice, refusal: Refusal, done: Reran) -> list[StoredJob]:
        """Oldest first."""
        named: dict[JobId, StoredJob] = {}  # jobs that were named are run again whatever became
        found: dict[JobId, StoredJob] = {}
        if wanted.selection.names:
            await self._named(wanted, refusal, (named, found), done)
        else:
            async for stored in self._filtered(wanted):
                if refusal(stored.job) is None:
                    found[stored.job.job_id] = stored
                    _check_count(len(found))
        if not wanted.again:
            await self._leave_reruns(found, done)
        return sorted((named | found).values(), key=lambda stored: stored.number)

    async def _named(
        self,
        wanted: RerunChoice,
        refusal: Refusal,
        into: tuple[dict[JobId, StoredJob], dict[JobId, StoredJob]],
        done: Reran,
    ) -> None:
        named, found = into
        states = wanted.selection.states or {JobState.FAILED}
        refused: list[tuple[str, SchedulerError]] = []
        for name in wanted.selection.names:
            stored = await self._store.job(JobId(name))
            error = None if stored is None else refusal(stored.job)
            is_there = stored is not None
            if stored is not None and error is None:
                is_so = not wanted.selection.states or stored.progress.state in states
                done.others[stored.progress.state] += not is_so
                named |= {stored.job.job_id: stored} if is_so else {}
            elif stored is None:
                async for element in elements_of(self._store, name):
                    refused_element = refusal(element.job)
                    if isinstance(refused_element, NotFound):
                        continue  # another tenant's: its elements are not named, nor that it is
                    is_there, error = True, error or refused_element
                    if element.progress.state not in states:
                        done.others[element.progress.state] += 1
                    elif wanted.matches(element):
                        found[element.job.job_id] = element
            if isinstance(error, NotFound) or not is_there:
                error = not_found(name)  # and not of an element, which would tell of the array
            if error is not None:
                refused.append((name, error))
            _check_count(len(found))
        raise_refused(refused)

    async def _filtered(self, wanted: RerunChoice) -> AsyncIterator[StoredJob]:
        selection = wanted.selection
        before: int | None = None
        while True:
            query = JobQuery(
                states=tuple(sorted(selection.states or {JobState.FAILED})),
                tenant_id=selection.tenant_id,
                name_contains=selection.name_contains,
                user=selection.user or "",
                before=before,
                limit=_PAGE,
            )
            page = await self._store.jobs(query)
            for stored in page:
                if wanted.matches(stored):
                    yield stored
            if len(page) < _PAGE:
                return
            before = page[-1].number

    async def _leave_reruns(self, found: dict[JobId, StoredJob], done: Reran) -> None:
        for job_id, again in (await self._store.reruns(list(found))).items():
            found.pop(job_id, None)
            done.before[again] = done.before.get(again, 0) + 1


def _groups(
    found: Iterable[StoredJob], names: Iterable[str]
) -> dict[str, list[tuple[str, StoredJob]]]:
    """By the array, with what stood behind its id; jobs of none by their own.

    An element that was named, and is the only one of its array, becomes a job with a plain id.
    """
    groups: dict[str, list[tuple[str, StoredJob]]] = {}
    for stored in found:
        job = stored.job
        if job.array is None:
            groups[job.job_id] = [("", stored)]
            continue
        group = groups.setdefault(job.array.array_id, [])
        prefix = f"{job.array.array_id}."
        is_element = job.job_id.startswith(prefix)
        suffix = job.job_id.removeprefix(prefix) if is_element else str(job.array.index)
        taken = {suffix for suffix, _ in group}
        while suffix in taken:  # a version before put reruns into the array itself
            suffix += ".2"
        group.append((suffix, stored))
    named, single = frozenset(names), dict[str, list[tuple[str, StoredJob]]]()
    for of, group in groups.items():
        (_, first), *others = group
        is_single = not others and first.job.job_id in named
        single |= {first.job.job_id: [("", first)]} if is_single else {of: group}
    return single


def _check_count(count: int) -> None:
    if count > MAX_ELEMENTS:
        raise InvalidRequest("jobs", count, f"at most {MAX_ELEMENTS:,} are run again at once")


def _check_size(groups: Iterable[Iterable[Submission]]) -> None:
    characters = sum(submission.characters for group in groups for submission in group)
    if characters > MAX_CHARACTERS:
        raise InvalidRequest("jobs", characters, TOO_MUCH)


def _notes(
    submissions: Iterable[Iterable[Submission]], groups: Iterable[list[tuple[str, StoredJob]]]
) -> list[str]:
    notes: dict[str, None] = {}
    for made, group in zip(submissions, groups, strict=True):
        for again, (_, stored) in zip(made, group, strict=True):
            if again.priority != stored.job.priority:
                notes[lowered(again, stored.job.priority)] = None
    return list(notes)[:10]
