"""The reference store: everything in memory, nothing durable. For trials, examples and tests."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple, assert_never

from tgpu.core.errors import Duplicate, InvariantBroken
from tgpu.core.model.events import (
    BookingRemoved,
    BookingSet,
    ClockStepped,
    Event,
    JobChanged,
    JobMoved,
    JobsSubmitted,
    MixSet,
    NodeSet,
    QueueRemoved,
    QueueSet,
    SettingsSet,
    TenantSet,
    TimePassed,
    UsageAdded,
)
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import NO_DETAIL
from tgpu.core.model.lifecycle import PENDING, PENDING_HELD, TERMINAL, JobState, Progress
from tgpu.core.model.node import Node
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.model.usage import NO_USAGE, GpuTimeUsage, total
from tgpu.core.state.clock_step import aged
from tgpu.store import event_codec
from tgpu.store.api import (
    AuditRow,
    DailyUsage,
    DecisionId,
    FoldedJob,
    JobQuery,
    JournalRow,
    LoadedState,
    Record,
    StoredJob,
)
from tgpu.store.folding import Folding, StateTally
from tgpu.store.rows import day_of

# A bound, so that a service left running for weeks does not grow for ever.
JOURNAL_ROWS: Final = 100_000
AUDIT_ROWS: Final = 100_000


class _Row(NamedTuple):
    seq: int
    event: Event
    decision: DecisionId | None


class MemoryStore:
    name = "memory (nothing is kept when the service ends)"
    is_durable = False

    def __init__(self, journal_rows: int = JOURNAL_ROWS) -> None:
        self._jobs: list[StoredJob] = []  # number n at n - 1
        self._numbers: dict[JobId, int] = {}
        self._submit_seqs: list[int] = []  # like _jobs
        self._first: dict[JobId, StoredJob] = {}  # jobs that were changed since, as they came
        self._tenants: dict[TenantId, Tenant] = {}
        self._queues: dict[tuple[TenantId, str], TenantQueue] = {}
        self._usage: dict[tuple[int, TenantId, str], GpuTimeUsage] = {}
        self._nodes: dict[NodeId, Node] = {}
        self._environments: dict[str, dict[str, str]] = {}
        self._journal: deque[_Row] = deque(maxlen=journal_rows)
        self._documents: dict[str, dict[str, bytes]] = {}
        self._audit: deque[AuditRow] = deque(maxlen=AUDIT_ROWS)
        self._seq = 0
        self._audit_seq = 0
        self._decision = 0  # of the last event

    async def open(self) -> LoadedState:
        states = Counter(stored.progress.state for stored in self._jobs)
        return LoadedState(
            tenants=tuple(self._tenants[key] for key in sorted(self._tenants)),
            queues=tuple(self._queues[key] for key in sorted(self._queues)),
            nodes=tuple(self._nodes[key] for key in sorted(self._nodes)),
            usage=total((tenant, queue, used) for (_, tenant, queue), used in self._usage.items()),
            live=tuple(
                (stored.job, stored.progress)
                for stored in self._jobs
                if stored.progress.state not in TERMINAL
            ),
            over={state: states[state] for state in JobState if state in TERMINAL},
            last_seq=self._seq,
            last_number=len(self._jobs),
            last_decision=self._decision,
        )

    async def commit(self, record: Record) -> int:
        self._check(record)
        decided = record.decided()
        for env_id, environment in record.environments.items():
            self._environments.setdefault(env_id, dict(environment))
        for event, decision in decided:
            self._seq += 1
            self._journal.append(_Row(self._seq, event, decision))
            self._decision = 0 if decision is None else decision.number
            self._apply(event, record)
        for (kind, name), body in record.documents.items():
            self._set_document(kind, name, body)
        for row in record.audit:
            self._audit_seq += 1
            self._audit.append(replace(row, seq=self._audit_seq))
        return self._seq

    async def ping(self) -> None:
        pass

    async def job(self, job_id: JobId) -> StoredJob | None:
        number = self._numbers.get(job_id)
        return None if number is None else self._jobs[number - 1]

    async def jobs(self, query: JobQuery) -> list[StoredJob]:
        newest = len(self._jobs) if query.before is None else query.before - 1
        if query.job_ids:
            numbers = {self._numbers.get(job_id, 0) for job_id in query.job_ids}
            candidates: Sequence[int] = sorted(
                (n for n in numbers if 0 < n <= newest), reverse=True
            )
        else:
            candidates = range(min(newest, len(self._jobs)), 0, -1)
        found: list[StoredJob] = []
        for number in candidates:
            if len(found) >= query.limit:
                break
            if _matches(self._jobs[number - 1], query):
                found.append(self._jobs[number - 1])
        return found

    async def folded(self, query: JobQuery) -> list[FoldedJob]:
        found: list[int] = []
        before = query.before
        while len(found) < query.limit:
            page = await self.jobs(replace(query, before=before, limit=1))
            if not page:
                break
            found.append(page[0].number)
            before = self._group(page[0].number).start
        tallies = [tally for number in found for tally in self._tallies(number)]
        page_of = Folding(found, tallies, query.limit)
        return page_of.rows({number: self._jobs[number - 1] for number in page_of.numbers()})

    async def count(self, query: JobQuery, *, fold: bool = False) -> int:
        found = await self.jobs(replace(query, before=None, limit=len(self._jobs)))
        if not fold:
            return len(found)
        return len({self._group(stored.number).start for stored in found})

    async def known(self, job_ids: Sequence[JobId]) -> set[JobId]:
        return {job_id for job_id in job_ids if job_id in self._numbers}

    async def reruns(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        wanted = frozenset(job_ids)
        found: dict[JobId, str] = {}
        for stored in await self.jobs(JobQuery(limit=len(self._jobs) or 1)):
            old, array = stored.detail.rerun_of, stored.job.array
            if old is not None and old in wanted:  # newest first
                found.setdefault(old, stored.job.job_id if array is None else array.array_id)
        return found

    async def environment(self, env_id: str) -> Mapping[str, str]:
        return self._environments.get(env_id, {})

    async def journal(
        self, after: int, limit: int, job_id: JobId | None = None
    ) -> list[JournalRow]:
        rows: list[JournalRow] = []
        for row in self._journal:
            if len(rows) >= limit:
                break
            if row.seq > after and (job_id is None or self._is_about(row, job_id)):
                rows.append(self._journal_row(row, job_id))
        return rows

    async def documents(self, kind: str) -> Mapping[str, bytes]:
        return dict(self._documents.get(kind, {}))

    async def usage(self, since_day: int, tenant_id: TenantId | None = None) -> list[DailyUsage]:
        return [
            DailyUsage(*key, self._usage[key])
            for key in sorted(self._usage)
            if key[0] >= since_day and tenant_id in (None, key[1])
        ]

    async def audit(
        self, *, before: int | None = None, limit: int = 100, tenant_id: TenantId | None = None
    ) -> list[AuditRow]:
        matching = (
            row
            for row in reversed(self._audit)
            if (before is None or row.seq < before) and tenant_id in (None, row.tenant_id)
        )
        return list(islice(matching, limit))

    async def close(self) -> None:
        """Nothing to do: a closed store of this kind can be opened again, with all it had."""

    # -- writing -----------------------------------------------------------------------------

    def _check(self, record: Record) -> None:
        """Refuse before anything is changed: this is what makes a commit whole or nothing."""
        live: dict[JobId, bool] = {}
        for event in record.events:
            event_codec.kind_of(event)
            if isinstance(event, JobsSubmitted):
                for job in event.jobs:
                    if job.job_id in self._numbers or job.job_id in live:
                        raise Duplicate(job.job_id)
                    live[job.job_id] = True
        for job_id in (job_id for event in record.events for job_id in _moved(event)):
            if not live.get(job_id, self._lives(job_id)):
                raise InvariantBroken(f"job {job_id} moved, but it is over or unknown")

    def _lives(self, job_id: JobId) -> bool:
        number = self._numbers.get(job_id)
        return number is not None and self._jobs[number - 1].progress.state not in TERMINAL

    def _apply(self, event: Event, record: Record) -> None:
        match event:
            case JobsSubmitted():
                self._submit(event, record)
            case JobMoved():
                self._move(event.job_id, event.progress)
            case JobChanged():
                self._change(event)
            case TenantSet():
                self._tenants[event.tenant.tenant_id] = event.tenant
            case QueueSet():
                self._queues[event.queue.tenant_id, event.queue.name] = event.queue
            case QueueRemoved():
                self._queues.pop((event.tenant_id, event.name), None)
            case UsageAdded():
                key = (day_of(event.at), event.tenant_id, event.queue)
                self._usage[key] = self._usage.get(key, NO_USAGE) + event.usage
            case NodeSet():
                self._nodes[event.node.node_id] = event.node
            case ClockStepped():
                self._jobs = [
                    stored
                    if stored.progress.state in TERMINAL
                    else replace(stored, job=aged(stored.job, event.by))
                    for stored in self._jobs
                ]
                for job_id, progress in event.moved:
                    self._move(job_id, progress)
            case BookingSet() | BookingRemoved() | MixSet() | SettingsSet() | TimePassed():
                # Kept as documents beside the journal's row, in the journal alone, or refused
                # before.
                pass
            case _:
                assert_never(event)

    def _move(self, job_id: JobId, progress: Progress) -> None:
        number = self._numbers[job_id]
        self._jobs[number - 1] = replace(self._jobs[number - 1], progress=progress)

    def _change(self, event: JobChanged) -> None:
        job_id = event.job.job_id
        number = self._numbers[job_id]
        before = self._jobs[number - 1]
        # The journal is made of what is kept here: of these, what they were.
        self._first.setdefault(job_id, before)
        detail = before.detail
        if event.name is not None:
            detail = replace(detail, name=event.name)
        self._jobs[number - 1] = replace(before, job=event.job, detail=detail)

    def _as_submitted(self, job_id: JobId) -> StoredJob:
        return self._first.get(job_id) or self._jobs[self._numbers[job_id] - 1]

    def _set_document(self, kind: str, name: str, body: bytes | None) -> None:
        documents = self._documents.setdefault(kind, {})
        if body is None:
            documents.pop(name, None)
        else:
            documents[name] = body

    def _submit(self, event: JobsSubmitted, record: Record) -> None:
        for job in event.jobs:
            number = len(self._jobs) + 1
            progress = PENDING_HELD if job.job_id in event.held else PENDING
            detail = record.details.get(job.job_id, NO_DETAIL)
            self._jobs.append(StoredJob(number, job, detail, progress))
            self._numbers[job.job_id] = number
            self._submit_seqs.append(self._seq)

    # -- arrays ------------------------------------------------------------------------------

    def _group(self, number: int) -> range:
        """The numbers of the elements that were submitted with this one; its own, if it is none."""
        array = self._jobs[number - 1].job.array
        first = last = number
        if array is not None:
            key = (array.array_id, self._submit_seqs[number - 1])
            while first > 1 and self._key(first - 1) == key:
                first -= 1
            while last < len(self._jobs) and self._key(last + 1) == key:
                last += 1
        return range(first, last + 1)

    def _key(self, number: int) -> tuple[str | None, int]:
        array = self._jobs[number - 1].job.array
        return None if array is None else array.array_id, self._submit_seqs[number - 1]

    def _tallies(self, number: int) -> list[StateTally]:
        if self._jobs[number - 1].job.array is None:
            return []
        by_state: dict[JobState, list[StoredJob]] = {}
        for each in self._group(number):
            stored = self._jobs[each - 1]
            by_state.setdefault(stored.progress.state, []).append(stored)
        return [
            StateTally(
                number,
                state,
                len(jobs),
                jobs[0].number,
                jobs[-1].number,
                max((j.progress.ended_at for j in jobs if j.progress.ended_at), default=None),
            )
            for state, jobs in by_state.items()
        ]

    # -- the journal -------------------------------------------------------------------------

    def _is_about(self, row: _Row, job_id: JobId) -> bool:
        if isinstance(row.event, JobsSubmitted):
            number = self._numbers.get(job_id, 0)
            return number > 0 and self._submit_seqs[number - 1] == row.seq
        return event_codec.job_of(row.event) == job_id

    def _journal_row(self, row: _Row, job_id: JobId | None) -> JournalRow:
        event = row.event
        if job_id is not None and isinstance(event, JobsSubmitted):
            job = self._as_submitted(job_id).job
            event = JobsSubmitted(event.at, (job,), event.held & {job_id})
        details = {}
        if isinstance(event, JobsSubmitted):
            for job in event.jobs:
                details[job.job_id] = self._as_submitted(job.job_id).detail
        payload = event_codec.event_text(event, details).encode()
        return JournalRow(
            row.seq,
            event.at,
            event_codec.kind_of(event),
            event_codec.job_of(event),
            payload,
            row.decision,
        )


def _moved(event: Event) -> tuple[JobId, ...]:
    """The jobs that it moves or changes."""
    match event:
        case JobMoved():
            return (event.job_id,)
        case JobChanged():
            return (event.job.job_id,)
        case ClockStepped():
            return tuple(job_id for job_id, _ in event.moved)
        case _:
            return ()


def _matches(stored: StoredJob, query: JobQuery) -> bool:
    job, detail = stored.job, stored.detail
    user = detail.user or job.options.user  # plain jobs have no detail
    return (
        (not query.states or stored.progress.state in query.states)
        and (query.tenant_id is None or job.tenant_id == query.tenant_id)
        and (query.tenant_ids is None or job.tenant_id in query.tenant_ids)
        and query.name_contains in detail.name
        and (not query.user or query.user == user)
        and (job.tenant_id not in query.own_only or (bool(user) and user == query.own_user))
        and (
            query.array_id is None
            or (job.array is not None and job.array.array_id == query.array_id)
        )
    )
