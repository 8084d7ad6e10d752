"""Run-time predictions of the service: learns from jobs that end, and from the store.

Two predictors of one kind: what orders are told rests on what the state knows of jobs, so that a
replay comes to the same; what people are told also on names and commands, which the store has.
A predictor that fails stops nothing: it is reported, and time limits take its place.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from tgpu.core.model.events import Event, JobMoved
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.lifecycle import PLACED, TERMINAL, JobState, paused_ms
from tgpu.core.prediction.nearby_submissions import NearbyRunTimes, NearbySubmissions
from tgpu.core.prediction.runtimes import (
    Facts,
    Forecast,
    LimitPredictor,
    Prediction,
    Predictor,
    by_its_own,
    facts_of,
    runtime_ms,
)
from tgpu.service.reads.cluster_reads import ClusterReads
from tgpu.service.recording.observer import Observer
from tgpu.store.api import DecisionId, JobQuery, Store, StoredJob, StoreUnavailable

# Ended jobs that are learned from at a start: enough for every user's own, read in about a second.
MOST_LOADED: Final = 20_000
_PAGE: Final = 500
_STEP: Final = 100  # jobs learned before others get their turn
# Ends whose names are still to be looked up; beyond that the oldest go without.
_MOST_BEHIND: Final = 10_000

_log = structlog.get_logger("gpu_scheduler.predictions")
_BY_LIMIT: Final = LimitPredictor()


class Predictions(Observer):
    def __init__(self, make: Callable[[], Predictor], name: str = "history") -> None:
        self._name = name
        self._orders = _Guarded(make, name)
        self._people = _Guarded(make, name)
        self._forecast = Forecast(self._orders)
        self._nearby_submissions = NearbySubmissions()
        # For the order `quickest`.
        self.run_times = NearbyRunTimes(self._forecast, self._nearby_submissions)
        self._reads = ClusterReads()  # of nothing, until the service opens
        self._is_loaded = False
        self._early: list[tuple[Job, int, int]] = []  # ended while the store was being read
        self._ended: list[JobId] = []
        self._arrived = asyncio.Event()

    # -- told ------------------------------------------------------------------------------------

    def of_class(self, job_class: JobClass, now: int) -> int | None:
        """For orders: the time in ms by which half of such jobs are over."""
        return self._forecast(job_class, now)

    def of_job(self, stored: StoredJob, now: int) -> Prediction | None:
        """For people; None for jobs that are over, and where nothing can be said."""
        progress = stored.progress
        if progress.state in TERMINAL:
            return None
        elapsed = 0
        if progress.state in PLACED and progress.started_at is not None:
            elapsed = max(0, now - progress.started_at - paused_ms(progress, now))
        return self.by_facts(facts_of(stored.job, stored.detail), elapsed, now)

    def left_ms(self, job: Job, elapsed_ms: int, now: int) -> int | None:
        """For preemption: how much longer a running job goes on, with nine of ten like it."""
        return self._forecast.left_ms(job, elapsed_ms, now)

    def by_state(self, job: Job, elapsed_ms: int, now: int) -> Prediction | None:
        """For estimates: how long a job that has run for so long runs in all."""
        return self._forecast.of_job(job, elapsed_ms, now)

    def by_facts(self, facts: Facts, elapsed_ms: int, now: int) -> Prediction | None:
        """The same with its name and command, where somebody has looked them up."""
        return by_its_own(facts, self._people.predict(facts, elapsed_ms, now), elapsed_ms)

    def problems(self) -> list[str]:
        found = self._orders.trouble or self._people.trouble
        return [f"predictor {self._name}: {found}; time limits take its place"] if found else []

    # -- learning --------------------------------------------------------------------------------

    def opening(self, reads: ClusterReads) -> None:
        self._reads = reads

    def committed(
        self,
        events: Sequence[Event],
        causes: Sequence[str | None],
        seconds: float,
        decisions: Sequence[DecisionId] = (),
    ) -> None:
        for event in events:
            if not isinstance(event, JobMoved):
                continue
            entry = self._reads.job(event.job_id)
            if entry is not None:
                self._nearby_submissions.moved(entry.job, event.progress)
            if event.progress.state in TERMINAL:
                self._take(event)

    def _take(self, event: JobMoved) -> None:
        entry = self._reads.job(event.job_id)
        ran = runtime_ms(event.progress)
        if entry is None or ran is None or _never_ran(entry.progress.state, event):
            return
        if not self._is_loaded:
            self._early.append((entry.job, ran, event.at))
        else:
            self._forecast.learn(entry.job, ran, event.at)
        if len(self._ended) < _MOST_BEHIND:
            self._ended.append(event.job_id)
        self._arrived.set()

    async def run(self, store: Store) -> None:
        """Learn from the store, then keep up with what ends."""
        if not self._is_loaded:
            await self.load(store)
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            await self._catch_up(store)

    async def load(self, store: Store) -> None:
        """From the newest jobs that are over. The store may be out of reach: then from none."""
        past: list[StoredJob] = []
        try:
            past = await _newest_ended(store)
        except StoreUnavailable as error:
            _log.warning("past jobs could not be read for predictions", problem=str(error))
        past.sort(key=lambda stored: (stored.progress.ended_at or 0, stored.number))
        known = set()
        for number, stored in enumerate(past):
            ran = runtime_ms(stored.progress)
            if ran is not None:
                known.add(stored.job.job_id)
                at = stored.progress.ended_at or 0
                self._forecast.learn(stored.job, ran, at)
                self._nearby_submissions.began(stored.job, at - ran)
                self._nearby_submissions.ended(stored.job, ran)
                self._people.learn(facts_of(stored.job, stored.detail), ran, at)
            if number % _STEP == _STEP - 1:
                await asyncio.sleep(0)
        for entry in self._reads.placed_jobs():
            self._nearby_submissions.moved(entry.job, entry.progress)
        self._is_loaded = True
        early, self._early = self._early, []
        for job, ran, at in early:
            if job.job_id not in known:
                self._forecast.learn(job, ran, at)
        self._ended = [job_id for job_id in self._ended if job_id not in known]

    async def _catch_up(self, store: Store) -> None:
        """Names and commands of those that ended, a page at a time."""
        while self._ended:
            job_ids, self._ended = tuple(self._ended[:_PAGE]), self._ended[_PAGE:]
            try:
                found = await store.jobs(JobQuery(job_ids=job_ids, limit=_PAGE))
            except StoreUnavailable as error:
                _log.warning("ended jobs could not be read for predictions", problem=str(error))
                continue
            by_id = {stored.job.job_id: stored for stored in found}
            for job_id in job_ids:
                stored = by_id.get(job_id)
                ran = None if stored is None else runtime_ms(stored.progress)
                if stored is not None and ran is not None:
                    at = stored.progress.ended_at or 0
                    self._people.learn(facts_of(stored.job, stored.detail), ran, at)


class _Guarded:
    """A predictor that may be of another package: whatever it does, somebody answers."""

    def __init__(self, make: Callable[[], Predictor], name: str) -> None:
        self.trouble: str | None = None
        self._name = name
        self._inner: Predictor = _BY_LIMIT
        try:
            self._inner = make()
        except Exception as error:  # another package's code may fail in any way
            self._failed(error)

    def learn(self, facts: Facts, duration_ms: int, at: int) -> None:
        try:
            self._inner.learn(facts, duration_ms, at)
        except Exception as error:
            self._failed(error)

    def predict(self, facts: Facts, elapsed_ms: int = 0, at: int = 0) -> Prediction | None:
        try:
            return _sound(self._inner.predict(facts, elapsed_ms, at))
        except Exception as error:
            self._failed(error)
        return _BY_LIMIT.predict(facts, elapsed_ms, at)

    def _failed(self, error: Exception) -> None:
        """It is not asked again: one that is wrong now and then would make orders jump."""
        self.trouble = f"{type(error).__name__}: {error}"
        self._inner = _BY_LIMIT
        _log.error("the predictor failed", predictor=self._name, problem=self.trouble)


def _sound(predicted: Prediction | None) -> Prediction | None:
    if predicted is None:
        return None
    if not (isinstance(predicted.p50_ms, int) and isinstance(predicted.p90_ms, int)):
        raise TypeError(f"p50_ms and p90_ms must be whole numbers, not {predicted}")
    if not 0 <= predicted.p50_ms <= predicted.p90_ms:
        raise ValueError(f"p50_ms and p90_ms must be at least 0 and in order, not {predicted}")
    return predicted


def _never_ran(before: JobState, event: JobMoved) -> bool:
    return event.progress.state is JobState.CANCELLED and before is not JobState.RUNNING


async def _newest_ended(store: Store) -> list[StoredJob]:
    states = tuple(sorted(TERMINAL))
    found: list[StoredJob] = []
    before: int | None = None
    while len(found) < MOST_LOADED:
        page = await store.jobs(JobQuery(states=states, before=before, limit=_PAGE))
        found += page
        if len(page) < _PAGE:
            break
        before = page[-1].number
    return found
