"""Collects what happened between two instants from a journal. Pure, apart from its input rows."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from tgpu.core.model.cause import Fault
from tgpu.core.model.events import (
    ClockStepped,
    Event,
    JobChanged,
    JobMoved,
    JobsSubmitted,
    NodeSet,
    SettingsSet,
)
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import PLACED, TERMINAL, JobState, Move, Progress
from tgpu.core.model.node import Node
from tgpu.core.state.clock_step import aged
from tgpu.journal.job_histories import names_of
from tgpu.journal.lines import JOB, SNAPSHOT, Journal, JournalLine, Values
from tgpu.journal.rebuild import TELL_EVERY, Tell, snapshot_job

PRICE: Final = "billing.cost_per_gpu_hour"
_FAILED: Final = frozenset({Move.FAIL, Move.REQUEUE})

GpuName = tuple[str, int]  # node and index


class Held(NamedTuple):
    node: str
    gpu: int
    millis: int


class AttemptRun(NamedTuple):
    """One attempt of a job, as far as it is inside the window."""

    job_id: JobId
    name: str
    tenant_id: TenantId
    since: int
    until: int
    state: JobState  # that it left its GPUs for; running where it has them still
    gpus: tuple[Held, ...]
    user: str = ""  # "" where nobody said
    array_id: str = ""  # of the array or sweep it is an element of

    @property
    def gpu_millis_ms(self) -> int:
        return (self.until - self.since) * sum(held.millis for held in self.gpus)


@dataclass(slots=True)
class Collected:
    """What happened from `since` until `until`."""

    since: int
    until: int
    price: float = 0.0  # of one GPU for an hour, as it was last set
    submitted: Counter[TenantId] = field(default_factory=Counter)
    ended: Counter[tuple[TenantId, JobState]] = field(default_factory=Counter)
    waits_ms: dict[TenantId, list[int]] = field(default_factory=dict)  # of first starts
    failures: Counter[Fault] = field(default_factory=Counter)  # of attempts
    preemptions: int = 0
    waiting: int = 0  # at the end
    running: int = 0
    runs: list[AttemptRun] = field(default_factory=list)
    gpus: dict[GpuName, str] = field(default_factory=dict)  # all that were there, and their types
    capacity: list[tuple[int, int]] = field(default_factory=list)  # GPUs there are, from then on
    is_whole: bool = True  # whether the journal was read to its end
    # All that the journal names, as they came, whatever of it the report is about.
    tenants_seen: dict[str, None] = field(default_factory=dict)
    users_seen: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Live:
    job: Job
    name: str = ""
    started: bool = False
    since: int | None = None  # it has its GPUs since then
    gpus: tuple[Held, ...] = ()
    state: JobState = JobState.PENDING


class _Snapshot(msgspec.Struct):
    """What is of interest here."""

    at: int
    nodes: list[Node] = []


def collect(
    journal: Journal, since: int, until: int, tenant_id: str | None = None, tell: Tell | None = None
) -> Collected:
    """`tenant_id` None: of all tenants. Raises BadInput for a journal that is none."""
    found = Collected(since, until, _price(journal.header.settings or {}))
    reader = _Reader(found, tenant_id)
    for number, row in enumerate(journal.rows(), 1):
        if row.kind == SNAPSHOT:
            reader.snapshot(row)
        elif row.kind == JOB:
            job, progress, _ = snapshot_job(row)
            reader.restore(job, progress)
        else:
            reader.take(row, journal.event(row))
        if tell is not None and number % TELL_EVERY == 0:
            tell(TELL_EVERY)
    found.is_whole = journal.is_whole
    reader.finish()
    return found


class _Reader:
    def __init__(self, found: Collected, tenant_id: str | None) -> None:
        self._found = found
        self._tenant_id = tenant_id
        self._live: dict[JobId, _Live] = {}
        self._nodes: dict[str, int] = {}  # GPUs of each
        self._first: int | None = None

    def take(self, row: JournalLine, event: Event) -> None:
        if event.at > self._found.until:
            return  # what follows may be before it all the same: clocks are set back now and then
        if self._first is None:
            self._first = event.at
        match event:
            case JobsSubmitted():
                names = names_of(row.payload)
                for job in event.jobs:
                    self._submitted(job, names.get(job.job_id, ""))
            case JobChanged():
                if (live := self._live.get(event.job.job_id)) is not None:
                    live.job = event.job
                    live.name = live.name if event.name is None else event.name
            case JobMoved():
                self._moved(event)
            case ClockStepped():
                for live in self._live.values():
                    live.job = aged(live.job, event.by)
                    live.since = None if live.since is None else live.since + event.by
            case NodeSet():
                self._node(event.at, event.node)
            case SettingsSet():
                self._found.price = _price(event.values)

    def snapshot(self, row: JournalLine) -> None:
        found = msgspec.json.decode(row.payload, type=_Snapshot)
        self._first = found.at
        for node in found.nodes:
            self._node(found.at, node)

    def restore(self, job: Job, progress: Progress) -> None:
        """A job that was there before the journal began."""
        self._see(job)
        if not self._counts(job):
            return
        live = self._live[job.job_id] = _Live(job, started=progress.attempt > 0)
        live.state = progress.state
        if progress.state in PLACED and progress.started_at is not None:
            live.since, live.gpus = progress.started_at, _held(progress)

    def finish(self) -> None:
        """After the last row: what still runs, and the beginning if the journal is younger."""
        found = self._found
        if self._first is not None:
            found.since = min(max(found.since, self._first), found.until)
        for live in self._live.values():
            if live.since is not None:
                self._ran(live, found.until, JobState.RUNNING)
                found.running += 1
            else:
                found.waiting += 1
        found.runs = [run._replace(since=max(run.since, found.since)) for run in found.runs]

    def _see(self, job: Job) -> None:
        self._found.tenants_seen.setdefault(str(job.tenant_id))
        self._found.users_seen.setdefault(job.options.user)

    def _counts(self, job: Job) -> bool:
        return self._tenant_id is None or job.tenant_id == self._tenant_id

    def _submitted(self, job: Job, name: str) -> None:
        self._see(job)
        if not self._counts(job):
            return
        self._live[job.job_id] = _Live(job, name)
        if job.submitted_at >= self._found.since:
            self._found.submitted[job.tenant_id] += 1

    def _moved(self, event: JobMoved) -> None:
        live = self._live.get(event.job_id)
        if live is None:
            return
        progress, in_window = event.progress, event.at >= self._found.since
        if progress.state in PLACED:
            if live.since is None:
                self._started(live, event, in_window)
        elif live.since is not None:
            self._ran(live, event.at, progress.state)
            live.since = None
        live.state = progress.state
        if in_window:
            self._count(live, event)
        if progress.state in TERMINAL:
            del self._live[event.job_id]

    def _started(self, live: _Live, event: JobMoved, in_window: bool) -> None:
        live.since, live.gpus = event.at, _held(event.progress)
        if in_window and not live.started:
            waits = self._found.waits_ms.setdefault(live.job.tenant_id, [])
            waits.append(max(0, event.at - live.job.submitted_at))
        live.started = True

    def _count(self, live: _Live, event: JobMoved) -> None:
        found, progress = self._found, event.progress
        if progress.state in TERMINAL:
            found.ended[live.job.tenant_id, progress.state] += 1
        if event.move is Move.PREEMPT:
            found.preemptions += 1
        if progress.fault is not None and event.move in _FAILED:
            found.failures[progress.fault] += 1

    def _ran(self, live: _Live, until: int, state: JobState) -> None:
        assert live.since is not None
        if until < self._found.since or not live.gpus:
            return
        job = live.job
        until = max(until, live.since)
        run = AttemptRun(
            job.job_id,
            live.name,
            job.tenant_id,
            live.since,
            until,
            state,
            live.gpus,
            job.options.user,
            "" if job.array is None else job.array.array_id,
        )
        self._found.runs.append(run)

    def _node(self, at: int, node: Node) -> None:
        before = sum(self._nodes.values())
        gpus = node.gpus if node.engine else ()  # others only report theirs
        self._nodes[node.node_id] = len(gpus)
        for gpu in gpus:
            self._found.gpus[node.node_id, gpu.index] = gpu.gpu_type
        after = sum(self._nodes.values())
        if after != before or not self._found.capacity:
            self._found.capacity.append((at, after))


def _price(values: Values) -> float:
    price = values.get(PRICE)
    return float(price) if isinstance(price, int | float) else 0.0


def _held(progress: Progress) -> tuple[Held, ...]:
    if progress.placement is None:
        return ()
    return tuple(
        Held(part.node_id, share.gpu_index, share.millis)
        for part in progress.placement.parts()
        for share in part.shares
    )


def totals(counts: Mapping[tuple[TenantId, JobState], int]) -> dict[JobState, int]:
    """Without the tenants."""
    found: dict[JobState, int] = {}
    for (_, state), count in counts.items():
        found[state] = found.get(state, 0) + count
    return found
