"""Start estimates of waiting jobs, kept up to date by the service.

The queue is played forward on a copy of the state, in slices between which others get their turn.
What a job was first told is a document of its own, so that it can be held against its start, also
after a restart. Nothing here decides anything, and what fails here stops nobody.
"""

import asyncio
import contextlib
import contextvars
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec
import structlog

from tgpu.core.model.events import Event, JobMoved
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import TERMINAL, JobState, Move
from tgpu.core.prediction.runtimes import Confidence, Facts, Level, Prediction, facts_of
from tgpu.core.projection.estimate import Announced, Basis, Estimate, StartSpread, Tail, is_news
from tgpu.core.projection.queue_projection import Projection, RunLength, Runs
from tgpu.core.projection.snapshot import Picture, fill, picture
from tgpu.core.reservations.reserved_capacity import FAR
from tgpu.core.scheduling_config import CycleContext
from tgpu.core.state.cluster_state import State, earliest_start
from tgpu.service.feed.feed import Feed
from tgpu.service.feed.feed_event import ESTIMATED, FeedEvent
from tgpu.service.forecast.predictions import Predictions
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.observer import Observer
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import DecisionId, JobQuery, Store, StoreUnavailable

_KIND: Final = "estimate"  # of documents: what a job was first told, by its id
# Scored estimates, some 200 bytes each: a month of a machine with a job that waits every five
# minutes.
KEPT: Final = 10_000
_PAGE: Final = 500  # jobs that are read at once
_SLICE_SECONDS: Final = 0.005
_SETTLE_SECONDS: Final = 0.25  # after a change: what starts at once need not be told anything
# Of the time since the last round, so much at most is spent on the next.
_SHARE: Final = 20
_REFRESH_SECONDS: Final = 60.0  # time alone makes jobs late that were foreseen to end
# Of a job of which nobody knows anything: as long as a usual one, or as long again as it ran.
_UNKNOWN_MS: Final = 3_600_000

_NOTHING: Final = Confidence(Level.NOTHING, 0)

_log = structlog.get_logger("gpu_scheduler.estimates")


@dataclass(frozen=True, slots=True)
class EstimateSettings:
    interval_seconds: float = 5.0  # between two rounds; 0: nobody is told anything
    budget_seconds: float = 0.25  # of computing for one round
    most_jobs: int = 2_000  # waiting jobs that are played forward one by one


DEFAULTS: Final = EstimateSettings()


class Estimates(Observer):
    def __init__(
        self,
        state: State,
        context: Callable[[], CycleContext],
        predictions: Predictions,
        clock: Clock,
        settings: EstimateSettings,
        *,
        feed: Feed,
        scored: Callable[[Announced], None] | None = None,
    ) -> None:
        """`context` is how the service would decide now; `scored` is told of each that started."""
        self._state = state
        self.context = context
        self._predictions = predictions
        self.clock = clock
        self.settings = settings
        self._feed = feed
        self._scored_to = scored
        self._spread = StartSpread()
        self._found: dict[JobId, Estimate] = {}
        self._tail: Tail | None = None
        self._told: dict[JobId, Estimate] = {}  # what watchers heard last
        self._waiting: dict[JobId, Announced] = {}
        self._scored: dict[JobId, Announced] = {}  # oldest first
        self._dirty: dict[tuple[str, str], bytes | None] = {}
        self._version = 0
        self._made: tuple[int, int] | None = None  # of which version, at which instant
        self._spent = 0.0  # seconds of computing for the last round
        self._store: Store | None = None
        # Names and commands of those that are looked at, by the job as it was then.
        self._facts: dict[JobId, tuple[Job, Facts]] = {}
        self._changed = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self.questions = asyncio.Lock()  # of those who have not submitted yet
        self._trouble: str | None = None

    # -- told ------------------------------------------------------------------------------------

    def of(self, job_id: JobId, latest: int | None = None) -> Estimate | None:
        """When a waiting job will start, as far as anybody knows; None: nobody does. By `latest`,
        where whoever asks knows a promise, else as the last cycle promised.

        All that tells a start tells this one, so that no two can disagree.
        """
        entry = self._state.entry(job_id)
        if entry is None or entry.progress.state is not JobState.PENDING or entry.progress.held:
            return None
        found = self._found.get(job_id)
        if found is None:
            is_behind = self._tail is not None and not entry.unmet
            found = self._tail.estimate(self._spread) if self._tail and is_behind else None
        if found is None:
            return None
        now = self.clock.now()
        if found.p50_at <= now and found.basis is not Basis.NEXT_CYCLE:
            self._changed.set()  # what was foreseen did not happen: look again
        latest = self._promised(job_id) if latest is None else latest
        return found.within(now, earliest_start(self._state, entry), latest)

    def _promised(self, job_id: JobId) -> int | None:
        promises = self.context().promises
        found = (one.at for one in promises if one.job_id == job_id and one.at != FAR)
        return next(found, None)

    def announced(self, job_id: JobId) -> Announced | None:
        """What a job was first told; None where it was told nothing, or that was long ago."""
        return self._waiting.get(job_id) or self._scored.get(job_id)

    def scored(self, since: int) -> list[Announced]:
        """Those that were told something and started since, oldest first."""
        return [one for one in self._scored.values() if (one.started_at or 0) >= since]

    def problems(self) -> list[str]:
        return [f"start estimates: {self._trouble}"] if self._trouble else []

    # -- watching --------------------------------------------------------------------------------

    async def open(self, store: Store) -> None:
        """What was announced before a restart. Jobs that moved on meanwhile are scored by it."""
        self._store = store
        bodies = (await store.documents(_KIND)).values()
        found = [msgspec.json.decode(body, type=Announced) for body in bodies]
        for one in sorted(found, key=lambda one: (one.started_at or 0, one.job_id)):
            if one.started_at is not None:
                self._keep(one)
                continue
            entry = self._state.entry(one.job_id)
            progress = None if entry is None else entry.progress
            if progress is None:
                stored = await store.job(one.job_id)
                progress = None if stored is None else stored.progress
            if progress is not None and progress.started_at is not None:
                self._score(one, progress.started_at)
            elif entry is not None:
                self._waiting[one.job_id] = one
            else:
                self._dirty[_KIND, one.job_id] = None

    def committed(
        self,
        events: Sequence[Event],
        causes: Sequence[str | None],
        seconds: float,
        decisions: Sequence[DecisionId] = (),
    ) -> None:
        self._version += 1
        for event in events:
            if isinstance(event, JobMoved):
                self._follow(event)
        self._changed.set()

    def clock_stepped(self, by: int) -> None:
        """What was told before cannot be held against a start on another time."""
        for job_id in self._waiting:
            self._dirty[_KIND, job_id] = None
        self._waiting.clear()
        self._told.clear()
        self._changed.set()

    def _follow(self, event: JobMoved) -> None:
        is_start = event.move is Move.START
        if not is_start and event.progress.state not in TERMINAL:
            return
        self._told.pop(event.job_id, None)
        self._found.pop(event.job_id, None)
        told = self._waiting.pop(event.job_id, None)
        if told is None:
            return
        if is_start:
            self._score(told, event.at)
        else:
            self._dirty[_KIND, told.job_id] = None

    def _score(self, told: Announced, started_at: int) -> None:
        over = told.started(started_at)
        self._keep(over)
        self._dirty[_KIND, over.job_id] = msgspec.json.encode(over)
        if self._scored_to is not None:
            self._scored_to(over)

    def _keep(self, over: Announced) -> None:
        self._spread.learn(over)
        self._scored[over.job_id] = over
        for job_id in list(islice(self._scored, max(0, len(self._scored) - KEPT))):
            del self._scored[job_id]
            self._dirty[_KIND, job_id] = None

    # -- looking ahead ---------------------------------------------------------------------------

    async def run(self, writer: Writer) -> None:
        """Keep the estimates up to date, as often as the settings say."""
        if not self.settings.interval_seconds:
            return
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH_SECONDS):
                    await self._changed.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            self._changed.clear()
            await self.renew(writer)
            pause = max(self.settings.interval_seconds, self._spent * _SHARE)
            await asyncio.sleep(pause - _SETTLE_SECONDS)

    async def fresh(self, writer: Writer) -> None:
        """On a clock that stands still nobody looks ahead until somebody asks."""
        if not self.clock.manual or not self.settings.interval_seconds:
            return
        if self._made == (self._version, self.clock.now()):
            return
        # A task of its own: what is recorded is the service's doing, not the caller's.
        await asyncio.create_task(self.renew(writer), context=contextvars.Context())

    async def renew(self, writer: Writer) -> None:
        """One round. A predictor or policy that fails leaves everybody without an estimate."""
        async with self._one_at_a_time:
            try:
                news = await self._look_ahead()
                self._trouble = None
            except Exception as error:  # of another package, or ours: jobs start all the same
                self._found, self._tail = {}, None
                self._complain(f"{type(error).__name__}: {error}")
                return
            self._tell(news)
            await self._flush(writer)

    def _complain(self, trouble: str) -> None:
        if trouble != self._trouble:  # once, not in every round
            _log.exception("when jobs start cannot be told", problem=trouble)
        self._trouble = trouble

    async def _look_ahead(self) -> list[tuple[Job, Estimate]]:
        now, version = self.clock.now(), self._version
        waiting = self._state.pending_count()
        if not waiting:
            self._found, self._tail, self._made = {}, None, (version, now)
            return []
        began = time.perf_counter()
        taken, context = self.picture(now), self.context()
        self._spent = time.perf_counter() - began
        await self._look_up(taken)
        state = State()
        await self._in_slices(fill(state, taken))
        projection = Projection(state, now, context, self.runs(now))
        # Where the clock stands still steps are counted, and the answer is the same each time.
        budget = None if self.clock.manual else self.settings.budget_seconds
        await self._in_slices(_steps(projection, 2 * self.settings.most_jobs), budget)
        found = {
            job_id: self.estimate(now, at, projection.guessed_from, projection.rests_on[job_id])
            for job_id, at in projection.starts.items()
        }
        left = waiting - len(found)
        is_cut = not (taken.is_whole and projection.is_over)
        self._tail = Tail(now, projection.reached, len(found), left) if is_cut and found else None
        self._found, self._made = found, (version, now)
        news = []
        for job_id, estimate in found.items():
            entry = self._state.entry(job_id)
            if entry is None or entry.progress.state is not JobState.PENDING:
                continue  # it moved on meanwhile
            if estimate.basis is not Basis.NEXT_CYCLE:
                self._announce(
                    entry.job, entry.progress.attempt, projection.starts[job_id], estimate
                )
                if is_news(self._told.get(job_id), estimate):
                    self._told[job_id] = estimate
                    news.append((entry.job, estimate))
        return news

    def picture(self, now: int) -> Picture:
        """What is true, for those who look ahead from here."""
        config, most = self.context().config, self.settings.most_jobs
        return picture(self._state, now, config.policy, config.policies, most)

    def runs(self, now: int) -> Runs:
        """As known now, however far the run goes."""
        told: dict[tuple[Facts, int], Prediction | None] = {}

        def known(job: Job, elapsed_ms: int) -> Prediction | None:
            _, facts = self._facts.get(job.job_id, (None, None))
            if facts is None:
                return self._predictions.by_state(job, elapsed_ms, now)
            key = (facts, elapsed_ms)
            if key not in told:
                told[key] = self._predictions.by_facts(facts, elapsed_ms, now)
            return told[key]

        def runs(job: Job, elapsed_ms: int) -> RunLength:
            found = known(job, elapsed_ms)
            if found is not None:
                ms = max(elapsed_ms, found.p50_ms)
                return RunLength(_within_limit(job, ms), by=found.confidence)
            ms = max(_UNKNOWN_MS, 2 * elapsed_ms)
            return RunLength(_within_limit(job, ms), is_known=False, by=_NOTHING)

        return runs

    async def _look_up(self, taken: Picture) -> None:
        """Names and commands tell jobs apart best, and only the store has them. Not on a clock
        that stands still: what is learned by names is learned beside it."""
        if self.clock.manual or self._store is None:
            return
        wanted = {job.job_id: job for job, _ in taken.jobs}
        known = self._facts
        # One that was edited is another object, and its name may be another too.
        self._facts = {
            job_id: known[job_id]
            for job_id, job in wanted.items()
            if job_id in known and known[job_id][0] is job
        }
        missing = [job_id for job_id in wanted if job_id not in self._facts]
        for first in range(0, len(missing), _PAGE):
            page = tuple(missing[first : first + _PAGE])
            try:
                found = await self._store.jobs(JobQuery(job_ids=page, limit=len(page)))
            except StoreUnavailable:
                return  # then by what the state knows of them
            for stored in found:
                job_id = stored.job.job_id
                self._facts[job_id] = wanted[job_id], facts_of(stored.job, stored.detail)

    async def _in_slices(self, steps: Iterator[None], budget: float | None = None) -> None:
        """To the end, or as far as the budget goes, while others get their turn in between."""
        left = budget
        while left is None or left > 0:
            began = time.perf_counter()
            is_over = True
            for _ in steps:
                if time.perf_counter() - began >= _SLICE_SECONDS:
                    is_over = False
                    break
            took = time.perf_counter() - began
            self._spent += took
            if is_over:
                return
            left = None if left is None else left - took
            await asyncio.sleep(0)

    def estimate(
        self, now: int, at: int, guessed_from: int | None, by: Confidence | None = None
    ) -> Estimate:
        p50, p90 = self._spread.window(now, at)
        basis = Basis.SIMULATED
        if at <= now:
            basis = Basis.NEXT_CYCLE
        elif guessed_from is not None and at >= guessed_from:
            basis = Basis.GUESSED
        return Estimate(p50, p90, now, basis, None if basis is Basis.NEXT_CYCLE else by)

    def _announce(self, job: Job, attempt: int, at: int, estimate: Estimate) -> None:
        if attempt or job.job_id in self._waiting or job.job_id in self._scored:
            return  # it counts once, for its first start
        told = Announced(
            job.job_id,
            job.tenant_id,
            job.queue,
            estimate.as_of,
            at,
            estimate.p50_at,
            estimate.p90_at,
        )
        self._waiting[job.job_id] = told
        self._dirty[_KIND, job.job_id] = msgspec.json.encode(told)

    def _tell(self, news: Sequence[tuple[Job, Estimate]]) -> None:
        self._feed.tell(
            [
                FeedEvent(
                    0,
                    estimate.as_of,
                    ESTIMATED,
                    job.job_id,
                    job.tenant_id,
                    JobState.PENDING,
                    {
                        "p50_seconds": (estimate.p50_at - estimate.as_of) / 1000,
                        "p90_seconds": (estimate.p90_at - estimate.as_of) / 1000,
                        "basis": estimate.basis.value,
                        "level": "" if estimate.by is None else estimate.by.level.value,
                        "samples": 0 if estimate.by is None else estimate.by.samples,
                    },
                    user=job.options.user,
                )
                for job, estimate in news
            ]
        )

    async def _flush(self, writer: Writer) -> None:
        if not self._dirty:
            return
        documents, self._dirty = self._dirty, {}

        def decide(_: State) -> Decision[None]:
            return Decision(None, documents=documents)

        try:
            await writer.do(decide, touches=())
        except StoreUnavailable:
            self._dirty = documents | self._dirty  # the store says so itself


def _within_limit(job: Job, ms: int) -> int:
    """A guess is no proof that a job fails at its limit: those who need it to end well are told
    when they start if it does."""
    limit = job.options.time_limit_ms
    return ms if limit is None else min(limit, ms)


def _steps(projection: Projection, most: int) -> Iterator[None]:
    while not projection.is_over and projection.steps < most:
        projection.step()
        yield
