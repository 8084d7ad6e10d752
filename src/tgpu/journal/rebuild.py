"""Rebuilds a past state from its events, and writes it as a snapshot."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from tgpu.core.accounting.budget import Spend
from tgpu.core.accounting.meter import Meter, Meters
from tgpu.core.errors import SchedulerError
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.events import (
    BookingSet,
    ClockStepped,
    Event,
    JobMoved,
    JobsSubmitted,
    NodeSet,
    QueueSet,
    SettingsSet,
    TenantSet,
    TimePassed,
)
from tgpu.core.model.ids import TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import TERMINAL, JobState, Progress
from tgpu.core.model.node import Node
from tgpu.core.model.request_profile import RequestProfile
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.core.prediction.nearby_submissions import BegunJobs, NearbyRunTimes, NearbySubmissions
from tgpu.core.prediction.runtimes import Facts, Forecast, History, Predictor, facts_of, runtime_ms
from tgpu.core.state.cluster_state import Entry, State
from tgpu.journal.lines import JOB, SNAPSHOT, Journal, JournalLine, Values
from tgpu.store import event_codec

HALF_LIFE: Final = "scheduler.fair_share_half_life_hours"
_INTERVAL: Final = "scheduler.scheduling_interval_ms"
_CLOCK: Final = "scheduler.clock"
_HOUR_MS: Final = 3_600_000

Tell = Callable[[int], None]  # is told now and then how many more rows were read
TELL_EVERY: Final = 2_000

# What applying an event that is none can end with: the files are anybody's.
_BROKEN: Final = (
    SchedulerError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class Learned(NamedTuple):
    facts: Facts
    ran_ms: int
    at: int


# As many as a service learns from when it starts.
MOST_LEARNED: Final = 20_000


class RecordedForesight:
    """How long jobs will run, as was known then: learned from the ends that were before."""

    def __init__(self, predictor: Predictor) -> None:
        self.learned: deque[Learned] = deque(maxlen=MOST_LEARNED)
        self._predictor = predictor
        self._forecast = Forecast(predictor)
        self.of_class = self._forecast.__call__
        self.left_ms = self._forecast.left_ms
        self.nearby_submissions = NearbySubmissions()
        self.run_times = NearbyRunTimes(self._forecast, self.nearby_submissions)

    def learn(self, entry: Entry, event: JobMoved) -> None:
        before, after = entry.progress.state, event.progress
        ran = runtime_ms(after)
        if ran is None or (after.state is JobState.CANCELLED and before is not JobState.RUNNING):
            return
        self.learned.append(Learned(facts_of(entry.job), ran, event.at))
        self._forecast.learn(entry.job, ran, event.at)

    def restore(self, learned: Iterable["Learned"]) -> None:
        """What ended before the journal begins. Nobody was asked yet."""
        for one in learned:
            self.learned.append(one)
            self._predictor.learn(*one)


class Rebuilt:
    """The state behind the last row that was taken."""

    def __init__(self, journal: Journal, predictor: Predictor | None = None) -> None:
        self.state = State()
        self.settings: SettingsSet | None = None  # in force; None: not on record
        self.foresight = RecordedForesight(predictor or History())
        self.seq = journal.header.after
        self.at = 0  # the latest instant that was heard of
        self._journal = journal

    def take(self, row: JournalLine, event: Event | None = None) -> None:
        """Raises BadInput where the row does not fit to those before it."""
        try:
            if row.kind == SNAPSHOT:
                self._restore(msgspec.json.decode(row.payload, type=_Snapshot))
            elif row.kind == JOB:
                self.state.restore(*snapshot_job(row))
            else:
                self._apply(self._journal.event(row) if event is None else event)
                self.seq = row.seq
        except (*_BROKEN, msgspec.DecodeError, RecursionError) as error:
            if isinstance(error, ValueError) and hasattr(error, "problems"):
                raise  # named already
            text = f"does not fit to what is before it: {type(error).__name__}: {error}"
            raise self._journal.bad(row.line, row.kind, text, "does not fit") from error

    def pass_time(self, at: int) -> None:
        self.state.apply(TimePassed(at))

    def cycles_every_ms(self) -> int | None:
        """How often a cycle is made at least, also where nothing changes; None: only when told."""
        values = self.values() or {}
        every = values.get(_INTERVAL)
        is_told = values.get(_CLOCK) == "manual"
        return None if is_told or not isinstance(every, int) else every

    def values(self) -> Values | None:
        """The settings in force; those of the export where none are on record."""
        return self._journal.header.settings if self.settings is None else self.settings.values

    def _apply(self, event: Event) -> None:
        self.at = event.at if isinstance(event, ClockStepped) else max(self.at, event.at)
        if isinstance(event, SettingsSet):
            self._set(event)
        elif isinstance(event, JobMoved):
            entry = self.state.entry(event.job_id)
            if entry is not None:
                self.foresight.nearby_submissions.moved(entry.job, event.progress)
                if event.progress.state in TERMINAL:
                    self.foresight.learn(entry, event)
        self.state.apply(event)

    def _set(self, event: SettingsSet) -> None:
        self.settings = event
        hours = event.values.get(HALF_LIFE)
        if isinstance(hours, int | float):
            self.state.meters.half_life_ms = round(hours * _HOUR_MS)

    # -- snapshots -----------------------------------------------------------------------------

    def _restore(self, found: "_Snapshot") -> None:
        state = self.state
        for tenant in found.tenants:
            state.apply(TenantSet(0, tenant))
        for queue in found.queues:
            state.apply(QueueSet(0, queue))
        for node in found.nodes:
            state.apply(NodeSet(0, node))
        for booking in found.bookings:
            state.apply(BookingSet(0, booking))
        state.usage = {(tenant_id, queue): usage for tenant_id, queue, usage in found.usage}
        state.meters = Meters(found.half_life_ms)
        for tenant_id, user, average, rate, at in found.meters:
            state.meters.by_owner[tenant_id, user] = Meter(average, rate, at)
        # Jobs that have GPUs add theirs again as they are restored.
        state.budgets.load(found.spends)
        days = {(tenant_id, user): spend for tenant_id, user, spend in found.user_days}
        state.user_days.load(days)
        state.counts.update({JobState(name): count for name, count in found.over.items()})
        state.ledger.request_profile = found.mix
        if found.settings is not None:
            self.settings = found.settings
        self.foresight.restore(found.learned)
        self.foresight.nearby_submissions.restore(found.begun)
        self.at = found.at
        state.apply(TimePassed(found.at))


class _Snapshot(msgspec.Struct):
    """All but the jobs."""

    at: int
    tenants: list[Tenant]
    queues: list[TenantQueue]
    nodes: list[Node]
    bookings: list[AdvanceReservation]
    usage: list[tuple[TenantId, str, GpuTimeUsage]]
    half_life_ms: int
    meters: list[tuple[TenantId, str | None, int, int, int]]
    spends: dict[TenantId, Spend]
    over: dict[str, int]
    settings: SettingsSet | None = None
    learned: list[Learned] = []  # how long jobs ran that ended before, the newest
    mix: RequestProfile | None = None
    begun: list[BegunJobs] = []  # what jobs submitted together tell of each other
    user_days: list[tuple[TenantId, str, Spend]] = []


class _SnapshotJob(msgspec.Struct):
    submission: msgspec.Raw  # as the journal has it, of this job alone
    progress: Progress
    # Why it can never start; stored under the name it had first.
    unsatisfiable: str | None = msgspec.field(default=None, name="doom")


def snapshot_job(row: JournalLine) -> tuple[Job, Progress, str | None]:
    """A job of a snapshot, how it stood, and why it can never start if so."""
    found = msgspec.json.decode(row.payload, type=_SnapshotJob)
    event = event_codec.decode_event("jobs_submitted", bytes(found.submission))
    assert isinstance(event, JobsSubmitted)
    (job,) = event.jobs
    return job, found.progress, found.unsatisfiable


def snapshot_lines(rebuilt: Rebuilt) -> Iterator[bytes]:
    """The state, so that a journal can begin here."""
    state, ledger = rebuilt.state, rebuilt.state.ledger
    found = _Snapshot(
        rebuilt.at,
        [ledger.tenants[key].tenant for key in sorted(ledger.tenants)],
        [ledger.queues[key].queue for key in sorted(ledger.queues)],
        ledger.known_nodes(),
        [ledger.bookings[key] for key in sorted(ledger.bookings)],
        [(*key, state.usage[key]) for key in sorted(state.usage)],
        state.meters.half_life_ms,
        sorted(
            ((*owner, *meter) for owner, meter in state.meters.by_owner.items()),
            key=lambda one: (one[0], one[1] or ""),
        ),
        {key: state.budgets.spends[key] for key in sorted(state.budgets.spends)},
        {name.value: state.counts[name] for name in JobState if name in TERMINAL},
        rebuilt.settings,
        list(rebuilt.foresight.learned),
        ledger.request_profile,
        rebuilt.foresight.nearby_submissions.kept(),
        [(*key, spend) for key, spend in sorted(state.user_days.spends.items())],
    )
    yield b'{"snapshot":%s}\n' % msgspec.json.encode(found)
    for entry in state.entries():
        job = entry.job
        one = _SnapshotJob(
            msgspec.Raw(
                event_codec.event_text(JobsSubmitted(job.submitted_at, (job,)), {}).encode()
            ),
            entry.progress,
            state.unsatisfiable_cause(job.job_id),
        )
        yield b'{"job":%s}\n' % msgspec.json.encode(one)


def rebuild(journal: Journal, predictor: Predictor | None = None) -> Rebuilt:
    """The state behind the last row of a journal."""
    found = Rebuilt(journal, predictor)
    for row in journal.rows():
        found.take(row)
    return found
