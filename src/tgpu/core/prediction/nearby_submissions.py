"""Run times of jobs submitted next to a job: users submit sweeps of similar jobs.

What has not ended tells something too: that it runs for longer than so far. Learns from what the
core knows of jobs, so that whoever sees the same starts and ends decides the same.
"""

from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.lifecycle import PLACED, Progress
from tgpu.core.prediction.runtimes import Forecast, runtime_ms

# Chosen on the public Philly and Venus traces (docs/results.md); none of them is sharp.
_NEAREST: Final = 2  # neighbours on each side that are asked
_NEAR_MS: Final = 300_000  # a neighbour this far away counts half
_USUAL: Final = 25  # of its kind that ended last: their middle is the usual length
_WEIGHT: Final = 1 << 20  # of a neighbour submitted at the same instant, and of what is usual

_MOST_OF_A_KIND: Final = 1_024
_MOST_KINDS: Final = 8_192

_Kind = tuple[str, str, int]  # tenant, user, GPUs


class _Begun:
    """Jobs of one kind that began, in the order in which they were submitted."""

    __slots__ = ("began", "keys", "newest", "ran", "usual")

    def __init__(self) -> None:
        self.keys: list[tuple[int, JobId]] = []
        self.began: dict[JobId, int] = {}  # those that run
        self.ran: dict[JobId, int] = {}  # how long those ran that are over
        self.newest: deque[int] = deque(maxlen=_USUAL)  # … the last of them
        self.usual: int | None = None  # the middle of these


class BegunJobs(NamedTuple):
    """All that is known of one kind, to be kept."""

    kind: _Kind
    keys: list[tuple[int, JobId]]
    began: dict[JobId, int]
    ran: dict[JobId, int]
    newest: list[int]


class NearbySubmissions:
    """Memory is bounded: the oldest of a kind are forgotten, and kinds that nobody starts."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[_Kind, _Begun] = OrderedDict()

    def began(self, job: Job, at: int) -> None:
        kind = self._kind(job)
        if job.job_id in kind.ran:
            return
        if job.job_id not in kind.began:
            insort(kind.keys, (job.submitted_at, job.job_id))
        kind.began[job.job_id] = at
        if len(kind.keys) > _MOST_OF_A_KIND:
            _, oldest = kind.keys.pop(0)
            kind.began.pop(oldest, None)
            kind.ran.pop(oldest, None)

    def ended(self, job: Job, ran_ms: int) -> None:
        kind = self._kind(job)
        if kind.began.pop(job.job_id, None) is not None:
            kind.ran[job.job_id] = ran_ms
            kind.newest.append(ran_ms)
            kind.usual = _middle(kind.newest)

    def came_back(self, job: Job) -> None:
        """It was preempted or failed, and waits again or is over: its length is unknown."""
        kind = self._kind(job)
        if kind.began.pop(job.job_id, None) is not None:
            del kind.keys[bisect_left(kind.keys, (job.submitted_at, job.job_id))]

    def moved(self, job: Job, progress: Progress) -> None:
        """Whatever became of a job."""
        if progress.state in PLACED:
            if progress.started_at is not None:
                self.began(job, progress.started_at)
        elif (ran := runtime_ms(progress)) is not None:
            self.ended(job, ran)
        else:
            self.came_back(job)

    def length_ms(
        self, job_class: JobClass, submitted_at: int, now: int, usual_ms: int | None
    ) -> int | None:
        """How long a job of a class submitted then will run: time spent by its neighbours for each
        that ended, the nearer the more, beside one job of the usual length."""
        time, over = 0, 0
        kind = self._kinds.get(_kind_of_class(job_class))
        if kind is not None:
            keys = kind.keys
            middle = bisect_left(keys, (submitted_at, JobId("")))
            for at, job_id in keys[max(0, middle - _NEAREST) : middle + _NEAREST]:
                weight = _WEIGHT * _NEAR_MS // (_NEAR_MS + abs(at - submitted_at))
                began = kind.began.get(job_id)
                if began is None:
                    time += weight * kind.ran[job_id]
                    over += weight
                else:
                    time += weight * max(0, now - began)
        if usual_ms is not None:
            return (time + _WEIGHT * usual_ms) // (over + _WEIGHT)
        return time // over if over else None

    def usual_ms(self, job_class: JobClass) -> int | None:
        """How long those of its kind ran of late; None where none has ended."""
        kind = self._kinds.get(_kind_of_class(job_class))
        return None if kind is None else kind.usual

    def begun_since(self, job_class: JobClass, submitted_at: int) -> int:
        """How many of its kind, submitted since then, began."""
        kind = self._kinds.get(_kind_of_class(job_class))
        if kind is None:
            return 0
        return len(kind.keys) - bisect_left(kind.keys, (submitted_at, JobId("")))

    def kept(self) -> list[BegunJobs]:
        return [
            BegunJobs(key, list(kind.keys), dict(kind.began), dict(kind.ran), list(kind.newest))
            for key, kind in self._kinds.items()
        ]

    def restore(self, kept: Iterable[BegunJobs]) -> None:
        for one in kept:
            kind = self._kinds[one.kind] = _Begun()
            kind.keys = list(one.keys)
            kind.began, kind.ran = dict(one.began), dict(one.ran)
            kind.newest.extend(one.newest)
            kind.usual = _middle(kind.newest)

    def _kind(self, job: Job) -> _Begun:
        key = (job.tenant_id, job.options.user, job.request.gpu_millis)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Begun()
            if len(self._kinds) > _MOST_KINDS:
                self._kinds.popitem(last=False)
        else:
            self._kinds.move_to_end(key)
        return kind


class NearbyRunTimes:
    """What `quickest` is told: the usual of a class, and what its neighbours say."""

    def __init__(self, forecast: Forecast, neighbours: NearbySubmissions) -> None:
        self._forecast = forecast
        self._neighbours = neighbours

    def length_ms(self, job_class: JobClass, submitted_at: int, now: int) -> int | None:
        limit = job_class.time_limit_ms
        usual = self._neighbours.usual_ms(job_class)
        if usual is None:  # the first of their kind: by what is more or less like them
            usual = self._forecast(job_class, now)
        found = self._neighbours.length_ms(
            job_class, submitted_at, now, limit if usual is None else usual
        )
        return found if limit is None or found is None else min(found, limit)

    def begun_since(self, job_class: JobClass, submitted_at: int) -> int:
        return self._neighbours.begun_since(job_class, submitted_at)


def _middle(lengths: Collection[int]) -> int | None:
    return sorted(lengths)[len(lengths) // 2] if lengths else None


def _kind_of_class(job_class: JobClass) -> _Kind:
    return (job_class.tenant_id, job_class.user, job_class.request.gpu_millis)
