"""The interface of stores: an append-only journal of events, and tables of the current state.

A `commit` writes both in one transaction, so neither can be ahead of the other. The service is
the only writer and commits one batch at a time; reads may run beside it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from tgpu.core.errors import InvariantBroken, Unavailable
from tgpu.core.model.events import Event
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Detail, Job
from tgpu.core.model.lifecycle import JobState, Progress
from tgpu.core.model.node import Node
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.model.usage import GpuTimeUsage


class StoreUnavailable(Unavailable):
    """The store cannot be opened or written: a full disk, no permission, a newer schema, ….

    What was being committed is not recorded, in no part, unless `is_outcome_known` is false.
    """

    def __init__(
        self,
        message: str,
        details: Iterable[dict[str, object]] = (),
        *,
        is_outcome_known: bool = True,
    ) -> None:
        super().__init__(message, details)
        self.is_outcome_known = is_outcome_known


class StoreAway(StoreUnavailable):
    """A server that does not answer, or not yet: a start that is tried again may work."""


class StoreChanged(StoreUnavailable):
    """The store has changes that this service does not know of: only a new start reads them."""


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as the store has it. `number` is the order in which jobs came in, from 1."""

    number: int
    job: Job
    detail: Detail
    progress: Progress


class Decider(StrEnum):
    """Who made a decision."""

    CYCLE = "cycle"  # of the scheduler
    COMMAND = "command"  # that somebody gave, by a request
    SERVICE = "service"  # by itself: an end it saw, a GPU that changed, its settings, …


class DecisionId(NamedTuple):
    """All events that were decided together have the same. Numbers go on without a hole, from 1,
    also over restarts."""

    number: int
    by: Decider


def decision_id(number: int | None, by: str | None) -> DecisionId | None:
    """From its two columns, which rows of older versions have nothing in."""
    return None if number is None or by is None else DecisionId(number, Decider(by))


@dataclass(frozen=True, slots=True)
class Record:
    """What one commit writes. The tables follow from the events; the rest comes beside them.

    JobsSubmitted inserts jobs (with `details` by job id; a missing one is `NO_DETAIL`), JobMoved
    replaces a job's progress, JobChanged the job itself, TenantSet, QueueSet and NodeSet replace a
    tenant, queue or node, QueueRemoved deletes a queue, UsageAdded adds to the usage of its day.
    TimePassed is not recorded and may not stand here.
    """

    events: Sequence[Event]
    details: Mapping[JobId, Detail] = field(default_factory=dict)
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    documents: Mapping[tuple[str, str], bytes | None] = field(default_factory=dict)  # None deletes
    audit: Sequence["AuditRow"] = ()
    decisions: Sequence[DecisionId] = ()  # of each event; or none at all

    def decided(self) -> list[tuple[Event, DecisionId | None]]:
        """Each event with its decision."""
        if not self.decisions:
            return [(event, None) for event in self.events]
        if len(self.decisions) != len(self.events):
            raise InvariantBroken(f"{len(self.decisions)} decisions of {len(self.events)} events")
        return list(zip(self.events, self.decisions, strict=True))


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Who did, or tried to do, what. Written once, never changed."""

    at: int
    actor: str  # "key:ci", "user:ada", "uid:1000", "local"
    action: str  # "POST /api/v1/jobs", …
    target: str  # what it was done to: a job id, a tenant, …
    tenant_id: TenantId | None
    origin: str  # the caller's address, or "unix"
    outcome: str  # "ok", or the error's code
    detail: str = ""
    seq: int = 0  # given by the store
    decision: int | None = None  # the number that its events have; None: it has none
    request_id: str | None = None  # what the lines of the log name it by


@dataclass(frozen=True, slots=True)
class DailyUsage:
    """What one queue of a tenant used on one day (UTC), `day` being days since the epoch."""

    day: int
    tenant_id: TenantId
    queue: str
    usage: GpuTimeUsage


@dataclass(frozen=True, slots=True)
class LoadedState:
    """All that the service needs to go on where it stopped."""

    tenants: tuple[Tenant, ...]
    queues: tuple[TenantQueue, ...]
    nodes: tuple[Node, ...]
    usage: Mapping[tuple[TenantId, str], GpuTimeUsage]  # of all time, by tenant and queue
    live: tuple[tuple[Job, Progress], ...]  # jobs that are not over, by number
    over: Mapping[JobState, int]  # how many are over, by state
    last_seq: int  # of the journal
    last_number: int  # of the jobs: generated ids go on from there
    last_decision: int = 0  # of the last event; 0: it is of a version without these numbers


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs to list, newest first. Conditions that are set must all hold."""

    states: tuple[JobState, ...] = ()
    tenant_id: TenantId | None = None
    tenant_ids: tuple[TenantId, ...] | None = None  # one of these; none at all matches nothing
    name_contains: str = ""
    user: str = ""
    job_ids: tuple[JobId, ...] = ()
    array_id: str | None = None
    before: int | None = None  # only numbers below this: the cursor of the next page
    limit: int = 100
    # Of these tenants only the jobs of `own_user`; of nobody where that is empty.
    own_only: tuple[TenantId, ...] = ()
    own_user: str = ""


@dataclass(frozen=True, slots=True)
class FoldedJob:
    """A row of a list in which an array or sweep is one row. `number` is its place there."""

    number: int
    job: StoredJob  # of an array: the next one that waits, or else one that runs, or failed, …
    states: Mapping[JobState, int] = field(default_factory=dict)  # its elements; none: no array
    first_index: int = 0
    last_index: int = 0
    started_at: int | None = None  # of the first element in each state, the earliest
    ended_at: int | None = None  # of those that are over, the last


@dataclass(frozen=True, slots=True)
class JournalRow:
    seq: int
    at: int
    kind: str  # "jobs_submitted", "job_moved", "tenant_set", "queue_set", "usage_added", …
    job_id: JobId | None  # None where the event is about several jobs or none
    payload: bytes  # the event as JSON
    decision: DecisionId | None = None  # None: written before events had one


class Store(Protocol):
    name: str  # for people: "SQLite at /home/me/.local/share/tgpu/tgpu.db"
    is_durable: bool  # what it has is there again when it is opened by another process

    async def open(self) -> LoadedState:
        """Make or migrate the tables and load. Raises StoreUnavailable with the remedy."""

    async def commit(self, record: Record) -> int:
        """Write all of it or none, durably before this returns; the last sequence number.

        Takes as long as it takes: nobody but the database knows the outcome before. Reads have a
        deadline, and raise StoreUnavailable then.
        """

    async def ping(self) -> None:
        """Return if a commit could be made now, as far as that shows without one. Writes nothing.

        Raises StoreUnavailable, and StoreChanged where somebody else has written.
        """

    async def job(self, job_id: JobId) -> StoredJob | None: ...

    async def jobs(self, query: JobQuery) -> list[StoredJob]: ...

    async def folded(self, query: JobQuery) -> list[FoldedJob]:
        """The same with one row for all elements of an array that one submission made.

        An array matches where any of its elements does; `before` is the number of a row. Costs
        what the rows and the elements of their arrays cost, whatever else there is.
        """

    async def count(self, query: JobQuery, *, fold: bool = False) -> int:
        """How many rows `jobs`, or with `fold` `folded`, gives on all of its pages together.

        Costs a walk through an index where nothing or a state is asked for, and else one through
        all jobs that may match.
        """

    async def known(self, job_ids: Sequence[JobId]) -> set[JobId]:
        """Which of these ids are taken, by jobs over or not."""

    async def reruns(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        """Which of these were run again, and as which array, or else job: the newest."""

    async def environment(self, env_id: str) -> Mapping[str, str]:
        """A stored environment; empty if there is none."""

    async def journal(
        self, after: int, limit: int, job_id: JobId | None = None
    ) -> list[JournalRow]:
        """Rows behind sequence number `after`, oldest first; with `job_id`, those about it."""

    async def documents(self, kind: str) -> Mapping[str, bytes]:
        """All documents of one kind, by name."""

    async def usage(self, since_day: int, tenant_id: TenantId | None = None) -> list[DailyUsage]:
        """Usage by day, from `since_day` on, oldest first."""

    async def audit(
        self, *, before: int | None = None, limit: int = 100, tenant_id: TenantId | None = None
    ) -> list[AuditRow]:
        """The newest audit rows first; `before` a sequence number gives the next page."""

    async def close(self) -> None: ...
