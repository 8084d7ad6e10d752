"""Which jobs a selection means: ids of jobs and arrays, and filters that must all match.

Jobs are found in slices, so that nobody is kept waiting by a walk through a long queue.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from tgpu.core.errors import InvalidRequest, NotFound, SchedulerError
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import TERMINAL, JobState
from tgpu.core.state.cluster_state import Entry, State
from tgpu.service.commands.jobs import not_found
from tgpu.store.api import JobQuery, Store, StoredJob, StoreUnavailable

# A commit of this many takes seconds, and the last step of it, which keeps everybody waiting, one.
MOST_SELECTED: Final = 50_000
_SLICE: Final = 5_000  # entries that are looked at before others get their turn: a millisecond
_PAGE: Final = 1_000
_TOLD: Final = 10  # ids that a sentence names

LIVE: Final = tuple(state for state in JobState if state not in TERMINAL)
OVER: Final = tuple(state for state in JobState if state in TERMINAL)

# Why a caller may not act on a job; None where they may.
Refusal = Callable[[Job], SchedulerError | None]


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that are set must all hold."""

    names: tuple[str, ...] = ()  # of jobs and of whole arrays
    states: frozenset[JobState] = frozenset()
    name_contains: str = ""
    user: str | None = None
    tenant_id: TenantId | None = None

    def matches(self, job: Job) -> bool:
        """But for state and name: the one changes, the other is in the store alone."""
        if self.user is not None and job.options.user != self.user:
            return False
        return self.tenant_id is None or job.tenant_id == self.tenant_id

    @property
    def only_name(self) -> str | None:
        """Where it is one name and nothing else."""
        rest = (self.states, self.name_contains, self.tenant_id)
        is_one = len(self.names) == 1 and self.user is None and not any(rest)
        return self.names[0] if is_one else None

    def told(self) -> str:
        """For the audit log."""
        parts = [
            some_ids(self.names),
            f"state {','.join(sorted(self.states))}" if self.states else "",
            f"name {self.name_contains}" if self.name_contains else "",
            "" if self.user is None else f"user {self.user}",
            "" if self.tenant_id is None else f"tenant {self.tenant_id}",
        ]
        return "; ".join(part for part in parts if part) or "all jobs"


@dataclass(slots=True)
class Picked:
    """The jobs of a selection that are not over, in the order in which they came in."""

    job_ids: list[JobId] = field(default_factory=list)
    tenants: set[TenantId] = field(default_factory=set)
    arrays: list[str] = field(default_factory=list)  # those of the names that are arrays
    over: Counter[JobState] = field(default_factory=Counter)  # of the named, by how they ended
    is_one_array: bool = False  # … and nothing else was named


async def pick(state: State, store: Store, selection: Selection, refusal: Refusal) -> Picked:
    """Raises NotFound for names that are none, and the refusals of jobs that were named and may
    not be touched. What only a filter finds and may not be touched is not picked."""
    picked = Picked()
    is_named = bool(selection.names)
    entries = await _named(state, store, selection, refusal, picked) if is_named else None
    by_name = await _by_name(store, selection)
    refused: list[tuple[str, SchedulerError]] = []
    async for entry in _in_slices(list(state.entries()) if entries is None else entries):
        job = entry.job
        if not selection.matches(job) or (by_name is not None and job.job_id not in by_name):
            continue
        if not is_named and selection.states and entry.progress.state not in selection.states:
            continue  # of those that were named it is told that they are in another one
        error = refusal(job)
        if error is None:
            picked.job_ids.append(job.job_id)
            picked.tenants.add(job.tenant_id)
        elif is_named:
            refused.append((job.job_id, error))
    raise_refused(refused)
    check_count(len(picked.job_ids))
    return picked


async def elements_of(
    store: Store, array_id: str, states: tuple[JobState, ...] = ()
) -> AsyncIterator[StoredJob]:
    """Of an array or sweep, newest first, over or not."""
    before: int | None = None
    while True:
        query = JobQuery(array_id=array_id, states=states, before=before, limit=_PAGE)
        page = await store.jobs(query)
        for stored in page:
            yield stored
        if len(page) < _PAGE:
            return
        before = page[-1].number


def check_count(count: int) -> None:
    if count > MOST_SELECTED:
        remedy = (
            f"at most {MOST_SELECTED:,} at once; choose fewer by state, name, user or tenant, or "
            "name arrays"
        )
        raise InvalidRequest("jobs", count, remedy)


def raise_refused(refused: list[tuple[str, SchedulerError]]) -> None:
    if not refused:
        return
    (_, error), *others = refused
    if others:
        names = some_ids([name for name, _ in others])
        error.message += f"; the same holds for {names}. Nothing was changed"
    raise error


def some_ids(names: Sequence[str]) -> str:
    """1, 2, 3 and 7 more"""
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return ", ".join(islice(names, _TOLD)) + more


async def _named(
    state: State, store: Store, selection: Selection, refusal: Refusal, picked: Picked
) -> list[Entry]:
    """The live jobs of the names; those that are over are counted."""
    found: dict[JobId, Entry] = {}
    live: dict[str, int] = {}  # names that are of no live job: how many live elements there are
    for name in selection.names:
        entry = state.entry(JobId(name))
        if entry is None or isinstance(refusal(entry.job), NotFound):
            live[name] = 0
        else:
            found[entry.job.job_id] = entry
    if live:
        async for entry in _in_slices(list(state.entries())):
            array = entry.job.array
            if array is None or array.array_id not in live:
                continue
            if not isinstance(refusal(entry.job), NotFound):  # or its elements would be named
                live[array.array_id] += 1
                found[entry.job.job_id] = entry
    refused: list[tuple[str, SchedulerError]] = []
    for name, count in live.items():
        if not await _count_over(store, name, refusal, picked, has_live=bool(count)):
            refused.append((name, not_found(name)))
    raise_refused(refused)
    picked.is_one_array = len(picked.arrays) == 1 == len(selection.names)
    return list(found.values())


async def _count_over(
    store: Store, name: str, refusal: Refusal, picked: Picked, *, has_live: bool
) -> bool:
    """Whether there is such a job or array, as far as this caller is concerned."""
    try:
        stored = None if has_live else await store.job(JobId(name))
        error = None if stored is None else refusal(stored.job)
        if stored is not None and not isinstance(error, NotFound):
            if error is not None:
                raise error
            picked.over[stored.progress.state] += 1
            return True
        over: Counter[JobState] = Counter()
        async for element in elements_of(store, name, OVER):
            if refusal(element.job) is None:
                over[element.progress.state] += 1
    except StoreUnavailable:
        if not has_live:
            raise
        over = Counter()  # what is left to cancel can be cancelled all the same
    picked.over += over
    if has_live or over:
        picked.arrays.append(name)
    return has_live or bool(over)


async def _by_name(store: Store, selection: Selection) -> set[JobId] | None:
    """Names of jobs are in the store alone."""
    if not selection.name_contains:
        return None
    found: set[JobId] = set()
    before: int | None = None
    while True:
        query = JobQuery(
            states=LIVE,
            tenant_id=selection.tenant_id,
            name_contains=selection.name_contains,
            before=before,
            limit=_PAGE,
        )
        page = await store.jobs(query)
        found.update(stored.job.job_id for stored in page)
        if len(page) < _PAGE:
            return found
        before = page[-1].number


async def _in_slices(entries: list[Entry]) -> AsyncIterator[Entry]:
    for index, entry in enumerate(entries, 1):
        yield entry
        if index % _SLICE == 0:
            await asyncio.sleep(0)
