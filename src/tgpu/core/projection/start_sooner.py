"""When a job would start if it were submitted now, and what would start it sooner.

Every answer comes of playing the queue forward on a state of its own; nothing is kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple

from tgpu.core.cycle import CycleObserver
from tgpu.core.explain.answer import Why, why
from tgpu.core.explain.changes import MOST_CHANGES, ChangeKind, RequestChange, changes
from tgpu.core.explain.what_if import NEWEST
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import PENDING
from tgpu.core.model.plan import Plan
from tgpu.core.prediction.runtimes import Confidence
from tgpu.core.projection.queue_projection import Projection, Runs
from tgpu.core.projection.snapshot import Picture, fill, state_of
from tgpu.core.scheduling_config import CycleContext
from tgpu.core.state.cluster_state import State

# Of each kind of change the first that helps and the first that starts the job at once; so many in
# all are worth a run into the future each.
_MOST_RUNS: Final = 12
# What helps: this much sooner, and a tenth of the wait.
_LEAST_GAIN_MS: Final = 60_000


class ForecastBasis(NamedTuple):
    """What a forecast is made from: the queue as it is, and how long jobs run."""

    picture: Picture
    now: int
    context: CycleContext
    runs: Runs


class ForecastStarts(NamedTuple):
    """When the first and the last of the jobs would start; None: not within what was played."""

    first_at: int | None
    last_at: int | None
    reached: int
    guessed_from: int | None
    steps: int
    first_by: Confidence | None = None  # what that rests on
    last_by: Confidence | None = None


class SoonerStart(NamedTuple):
    change: RequestChange
    at: int
    by: Confidence | None = None


def play(
    basis: ForecastBasis, jobs: Sequence[Job], most_steps: int
) -> Iterator[ForecastStarts | None]:
    """Step by step, so that others get their turn in between; the last is the answer."""
    state = State()
    yield from fill(state, basis.picture)
    for job in jobs:
        state.restore(job, PENDING)
    wanted = {job.job_id for job in jobs}
    projection = Projection(state, basis.now, basis.context, basis.runs)
    while not projection.is_over and projection.steps < most_steps:
        projection.step()
        yield _asked(projection, jobs)
        if wanted <= projection.starts.keys():
            return


def _asked(projection: Projection, jobs: Sequence[Job]) -> ForecastStarts:
    starts = [
        (projection.starts[job.job_id], projection.rests_on[job.job_id])
        for job in jobs
        if job.job_id in projection.starts
    ]
    is_all = len(starts) == len(jobs)
    first_at, first_by = min(starts, default=(None, None), key=_at)
    last_at, last_by = max(starts, key=_at) if is_all else (None, None)
    return ForecastStarts(
        first_at,
        last_at,
        projection.reached,
        projection.guessed_from,
        projection.steps,
        first_by,
        last_by,
    )


_at: Final = itemgetter(0)


def as_new(job: Job, now: int) -> Job:
    """The job as it would stand behind all that wait."""
    return replace(job, job_id=JobId(NEWEST + job.job_id), submitted_at=now)


def sooner_starts(
    basis: ForecastBasis, job: Job, starts_at: int, budget: int
) -> Iterator[SoonerStart | None]:
    """Changes after which it starts sooner than `starts_at`, the cheapest first; None now and then
    in between. At most `budget` steps in all."""
    latest = starts_at - max(_LEAST_GAIN_MS, (starts_at - basis.now) // 10)
    helped: dict[ChangeKind, int] = {}
    for tried, change in enumerate(islice(_candidates(basis, job), MOST_CHANGES)):
        if tried == _MOST_RUNS or budget <= 0:
            return
        if helped.get(change.kind) == basis.now:
            continue  # another one like it starts it at once, and takes less away
        found: ForecastStarts | None = None
        for step in play(basis, (change.job,), budget):
            found = step or found
            if found is not None and found.reached > latest:
                break
            yield None
        if found is None:
            continue
        budget -= found.steps
        at = found.first_at
        if at is not None and at <= latest and (change.kind not in helped or at == basis.now):
            helped[change.kind] = at
            yield SoonerStart(change, at, found.first_by)


def _candidates(basis: ForecastBasis, job: Job) -> Iterator[RequestChange]:
    state, now = state_of(basis.picture), basis.now
    state.restore(job, PENDING)
    entry = state.entry(job.job_id)
    assert entry is not None  # it was put there just now
    config, promises, refused_classes = basis.context
    calm = config.asking_nobody()

    def decide(observer: CycleObserver | None) -> Plan:
        return calm.decide(state, now, promises, refused_classes, observer)

    found: Why = why(state, entry, now, decide)
    yield from changes(state.ledger, job, found, now)
