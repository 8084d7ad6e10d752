"""How long jobs will run, from how long similar ones ran.

Only orders, estimates and people look at predictions. Who may pass whom is told by time limits,
which are enforced; a guess is not.
"""

import re
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

from tgpu.core.model.job import NO_DETAIL, Detail, Job, JobClass
from tgpu.core.model.lifecycle import TERMINAL, JobState, Progress


class Level(StrEnum):
    """How alike the jobs are that a prediction rests on, from the most to the least."""

    EXACT = "exact"  # same user, command to the letter, GPUs and type
    COMMAND = "command"  # same user, name, command but for its numbers, GPUs, type and limit
    NAME = "name"  # same user, name, GPUs and limit
    USER = "user"  # same user and GPUs
    TENANT = "tenant"  # same tenant and GPUs
    SIZE = "size"  # as many GPUs
    ANY = "any"  # whatever ran here
    ELAPSED = "elapsed"  # nothing known ran for so long: told by how long it ran already
    LIMIT = "limit"  # nothing known: its own time limit
    MODEL = "model"  # what a model of another kind learned from all of them
    NOTHING = "nothing"  # nothing at all: somebody guessed


class Confidence(NamedTuple):
    """What a prediction rests on most: jobs this much alike, and how many of them."""

    level: Level
    samples: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """Run times from the start of the attempt. Half of such jobs are over by `p50_ms`, nine of
    ten by `p90_ms`."""

    p50_ms: int
    p90_ms: int
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class Facts:
    """What a predictor is told of a job. Empty: not known."""

    tenant_id: str
    user: str
    gpu_millis: int
    gpu_type: str = ""
    name: str = ""  # without its numbers, see `template`
    command: str = ""
    time_limit_ms: int | None = None
    exact: str = ""  # the command as it is, as a digest


class Predictor(Protocol):
    """The plug-in slot. Called between two steps of the service: quick, and never waiting.

    Given the same calls in the same order it must tell the same, or replays will not agree.
    """

    def learn(self, facts: Facts, duration_ms: int, at: int) -> None:
        """Such a job ended at this instant after running for so long."""

    def predict(self, facts: Facts, elapsed_ms: int = 0, at: int = 0) -> Prediction | None:
        """For a job that has run for `elapsed_ms` now; None where nothing can be said."""


_NUMBERS: Final = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # a UUID
    r"|0x[0-9a-f]+"
    r"|(?<![0-9a-z])(?=[a-f]*[0-9])[0-9a-f]{6,}(?![0-9a-z])"  # a commit, a hash
    r"|[0-9]+(?:\.[0-9]+)*"
)
_LONGEST_TEXT: Final = 200  # of a name or command that tells jobs apart


def template(text: str) -> str:
    """A name or command as all of its kind have it: `train-07` and `train-12` are `train-#`."""
    return _NUMBERS.sub("#", text[:_LONGEST_TEXT].lower())


def runtime_ms(progress: Progress) -> int | None:
    """How long a job that is over ran, without its pauses; None where that tells nothing of others:
    it never began, or was preempted in between, so that its last attempt was not all of it."""
    began, ended = progress.started_at, progress.ended_at
    if progress.state not in TERMINAL or began is None or ended is None or progress.preemptions:
        return None
    if progress.state is JobState.CANCELLED and ended <= began:
        return None
    return max(0, ended - began - progress.paused_ms)


def _digest(argv: tuple[str, ...]) -> str:
    return sha256("\0".join(argv).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def facts_of(job: Job, detail: Detail = NO_DETAIL) -> Facts:
    return Facts(
        job.tenant_id,
        job.options.user,
        job.request.gpu_millis,
        job.request.gpu_type or "",
        template(detail.name),
        template(" ".join(detail.argv)),
        job.options.time_limit_ms,
        _digest(detail.argv) if detail.argv else "",
    )


def facts_of_class(job_class: JobClass) -> Facts:
    """What all jobs of a class have in common: not their names and commands."""
    request = job_class.request
    return Facts(
        job_class.tenant_id,
        job_class.user,
        request.gpu_millis,
        request.gpu_type or "",
        time_limit_ms=job_class.time_limit_ms,
    )


class NoPredictor:
    """Says nothing about anybody."""

    def learn(self, facts: Facts, duration_ms: int, at: int) -> None:
        pass

    def predict(self, facts: Facts, elapsed_ms: int = 0, at: int = 0) -> Prediction | None:
        return None


class LimitPredictor(NoPredictor):
    """Believes what people say: every job runs to its time limit."""

    def predict(self, facts: Facts, elapsed_ms: int = 0, at: int = 0) -> Prediction | None:
        if facts.time_limit_ms is None:
            return None
        end = max(facts.time_limit_ms, elapsed_ms)
        return Prediction(end, end, Confidence(Level.LIMIT, 0))


# The numbers below were chosen on the public Venus and Philly traces, where they give quantiles
# that hold (docs/howto/prediction.md has the figures); none of them is sharp.
_NEWEST: Final = 128  # samples kept of each kind of job
_MOST_KEYS: Final = 8192  # kinds of jobs kept: some 60 MB where each has all its samples
_FADE_MS: Final = 3 * 86_400_000  # a sample this much older than the newest weighs half
_FADE_RANK: Final = 4  # … and so does one with so many newer ones
_WEIGHT: Final = 1 << 20  # of a sample that was learned just now
_PRIOR: Final = 2 * _WEIGHT  # more general jobs weigh as much as two of the specific ones
_WHOLE: Final = 1 << 32
_ENOUGH: Final = _WHOLE >> 4  # what is left of the weight is not worth a further level
_PERCENT: Final = 100
_P50: Final = 50
# What comes next is a little unlike what was: 92 of 100 known ones hold 90 of the next.
_P90: Final = 92
# Of jobs that ran longer than all known ones, half run twice as long as they did so far and one in
# ten more than ten times as long: what is typical of run times with long tails.
_LONGER_P50: Final = 2
_LONGER_P90: Final = 10


class _Samples:
    """The newest run times of one kind of job."""

    __slots__ = ("_below", "_durations", "_recent")

    def __init__(self) -> None:
        self._recent: deque[tuple[int, int]] = deque(maxlen=_NEWEST)
        self._durations: list[int] = []  # sorted; empty: to be made anew
        self._below: list[int] = []  # weight of all before each, and at the end of all

    def add(self, sample: tuple[int, int]) -> None:
        self._recent.append(sample)
        self._durations = []

    def mass(self, elapsed_ms: int, at: int) -> tuple[int, int, int]:
        """How many ran longer, what they weigh among themselves, and beside other kinds at `at`."""
        self._arrange()
        index = bisect_right(self._durations, elapsed_ms) if elapsed_ms else 0
        own = self._below[-1] - self._below[index]
        age = max(0, at - self._recent[-1][0])
        return len(self._durations) - index, own, own * _FADE_MS // (_FADE_MS + age)

    def up_to(self, duration_ms: int) -> int:
        """The weight of those that were over by then."""
        return self._below[bisect_right(self._durations, duration_ms)]

    def quantile(self, before: int, own: int, percent: int) -> int:
        """The least run time by which so many of those are over that weigh `own` after `before`."""
        wanted = before + -(-own * percent // _PERCENT)
        return self._durations[bisect_left(self._below, wanted) - 1]

    def between(self, low: int, high: int) -> list[int]:
        durations = self._durations
        return durations[bisect_left(durations, low) : bisect_right(durations, high)]

    def _arrange(self) -> None:
        if self._durations:
            return
        newest = self._recent[-1][0]
        weighed = []
        for rank, (at, duration) in enumerate(reversed(self._recent)):
            faded = _WEIGHT * _FADE_MS // (_FADE_MS + max(0, newest - at))
            weighed.append((duration, faded * _FADE_RANK // (_FADE_RANK + rank)))
        weighed.sort()
        self._durations = [duration for duration, _ in weighed]
        below, total = [0], 0
        for _, weight in weighed:
            total += weight
            below.append(total)
        self._below = below


class _Part(NamedTuple):
    """What one kind of jobs adds to a prediction."""

    level: Level
    samples: _Samples
    number: int  # of jobs
    before: int  # the weight of those that do not count: over sooner than the job ran already
    own: int
    share: int


class History:
    """Quantiles of the most similar past jobs, mixed with more general ones where those are few.

    Each level has its samples' weight beside a fixed one of all levels behind it: one job of the
    same name says something, ten say nearly all. Memory is bounded: kinds of jobs that have not
    ended for the longest are forgotten.
    """

    def __init__(self, most_keys: int = _MOST_KEYS) -> None:
        self._most_keys = most_keys
        self._kinds: OrderedDict[tuple[object, ...], _Samples] = OrderedDict()

    def __len__(self) -> int:
        """Kinds of jobs that are known."""
        return len(self._kinds)

    def learn(self, facts: Facts, duration_ms: int, at: int) -> None:
        sample = (at, max(0, duration_ms))
        for _, key in _keys(facts):
            kind = self._kinds.get(key)
            if kind is None:
                kind = self._kinds[key] = _Samples()
            else:
                self._kinds.move_to_end(key)
            kind.add(sample)
        while len(self._kinds) > self._most_keys:
            self._kinds.popitem(last=False)

    def predict(self, facts: Facts, elapsed_ms: int = 0, at: int = 0) -> Prediction | None:
        parts = self._mixture(facts, elapsed_ms, at)
        if parts:
            main = max(parts, key=lambda part: part.share)
            p50, p90 = _quantiles(parts)
            confidence = Confidence(main.level, main.number)
        elif elapsed_ms and self._kinds:
            p50, p90 = elapsed_ms * _LONGER_P50, elapsed_ms * _LONGER_P90
            confidence = Confidence(Level.ELAPSED, 0)
        else:
            return _BY_LIMIT.predict(facts, elapsed_ms, at)
        if facts.time_limit_ms is not None:
            most = max(facts.time_limit_ms, elapsed_ms)
            p50, p90 = min(p50, most), min(p90, most)
        return Prediction(p50, p90, confidence)

    def _mixture(self, facts: Facts, elapsed_ms: int, at: int) -> list[_Part]:
        """The levels with their shares; the last one takes what is left."""
        parts: list[_Part] = []
        left = _WHOLE
        for level, key in _keys(facts):
            kind = self._kinds.get(key)
            if kind is None:
                continue
            count, own, mass = kind.mass(elapsed_ms, at)
            if not own:
                continue
            share = left * mass // (mass + _PRIOR)
            before = kind.up_to(elapsed_ms) if elapsed_ms else 0
            parts.append(_Part(level, kind, count, before, own, share))
            left -= share
            if left <= _ENOUGH:
                return parts
        if parts:
            parts[-1] = parts[-1]._replace(share=parts[-1].share + left)
        return parts


class Forecast:
    """What orders are told: the run time that half of a class are over by.

    Learns from what the core itself knows of jobs, so that whoever sees the same ends, in the same
    order, decides the same. Constant while nothing ends.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._told: dict[tuple[Facts, int], Prediction | None] = {}
        self._minute = 0

    def learn(self, job: Job, duration_ms: int, at: int) -> None:
        self.learn_of(facts_of(job), duration_ms, at)

    def learn_of(self, facts: Facts, duration_ms: int, at: int) -> None:
        self._told.clear()
        self._predictor.learn(facts, duration_ms, at)

    def __call__(self, job_class: JobClass, now: int) -> int | None:
        """In ms; None where nothing can be said."""
        facts = facts_of_class(job_class)
        predicted = self._predict(facts, 0, now)
        if predicted is None:
            return None
        # What others ran for tells less of a job than what its owner says of it.
        is_said = facts.time_limit_ms is not None and predicted.confidence.level in _OF_OTHERS
        return None if is_said else predicted.p50_ms

    def of_job(self, job: Job, elapsed_ms: int, now: int) -> Prediction | None:
        """For estimates: how long a job runs in all that has run for so long."""
        step = max(0, elapsed_ms.bit_length() - _STEP_BITS)
        facts = facts_of(job)
        predicted = self._predict(facts, elapsed_ms >> step << step, now)
        return by_its_own(facts, predicted, elapsed_ms)

    def left_ms(self, job: Job, elapsed_ms: int, now: int) -> int | None:
        """How much longer a running job goes on at most, with nine of ten that are like it. None
        where too few of its owner's are known: others wait on the strength of this."""
        # In steps of a sixteenth, so that jobs that are alike share an answer.
        step = max(0, elapsed_ms.bit_length() - _STEP_BITS)
        predicted = self._predict(facts_of(job), elapsed_ms >> step << step, now)
        if predicted is None or predicted.confidence.level in _OF_OTHERS:
            return None
        if predicted.confidence.samples < _MANY:
            return None
        return max(0, predicted.p90_ms - elapsed_ms)

    def _predict(self, facts: Facts, elapsed_ms: int, now: int) -> Prediction | None:
        minute = now // _MINUTE_MS
        if minute != self._minute:  # what is old fades, and slowly
            self._minute = minute
            self._told.clear()
        key = (facts, elapsed_ms)
        if key not in self._told:
            self._told[key] = self._predictor.predict(facts, elapsed_ms, minute * _MINUTE_MS)
        return self._told[key]


_STEP_BITS: Final = 5
_MANY: Final = 10  # jobs of which one may be the tenth that runs longer
_OF_OTHERS: Final = frozenset({Level.TENANT, Level.SIZE, Level.ANY, Level.ELAPSED, Level.LIMIT})
_MINUTE_MS: Final = 60_000
_BY_LIMIT: Final = LimitPredictor()
_OF_ITS_KIND: Final = frozenset({Level.EXACT, Level.COMMAND, Level.NAME})
_ENOUGH_RUNS: Final = 3  # of its kind, before they are believed more than its owner
# From the surest to the least sure.
_SURENESS: Final = (
    Level.EXACT,
    Level.COMMAND,
    Level.NAME,
    Level.LIMIT,
    Level.MODEL,
    Level.USER,
    Level.TENANT,
    Level.SIZE,
    Level.ANY,
    Level.ELAPSED,
    Level.NOTHING,
)


def by_its_own(
    facts: Facts, predicted: Prediction | None, elapsed_ms: int = 0
) -> Prediction | None:
    """What people and estimates are told. A job with a time limit goes by runs of its own kind,
    where there are enough of them, else by the limit: nineteen demos of two seconds say nothing
    of a training that its owner gives an hour. A model was taught limits, and weighs them."""
    if predicted is None or facts.time_limit_ms is None:
        return predicted
    level, samples = predicted.confidence
    if level is Level.MODEL or (level in _OF_ITS_KIND and samples >= _ENOUGH_RUNS):
        return predicted
    return _BY_LIMIT.predict(facts, elapsed_ms)


def weaker(one: Confidence | None, other: Confidence | None) -> Confidence | None:
    """The one that tells less; None tells of nothing that could be wrong."""
    if one is None or other is None:
        return other or one
    return max(one, other, key=lambda each: (_SURENESS.index(each.level), -each.samples))


def _keys(facts: Facts) -> list[tuple[Level, tuple[object, ...]]]:
    """From specific to general. The first word keeps keys of different levels apart."""
    gpus, tenant, user = facts.gpu_millis, facts.tenant_id, facts.user
    name, command = facts.name, facts.command
    keys: list[tuple[Level, tuple[object, ...]]] = []
    limit = _limit_class(facts.time_limit_ms)
    if facts.exact:
        keys.append((Level.EXACT, (6, tenant, user, facts.exact, gpus, facts.gpu_type)))
    if command:
        keys.append((Level.COMMAND, (0, tenant, user, name, command, gpus, facts.gpu_type, limit)))
    if name:
        keys.append((Level.NAME, (1, tenant, user, name, gpus, limit)))
    if user:
        keys.append((Level.USER, (2, tenant, user, gpus)))
    if tenant:
        keys.append((Level.TENANT, (3, tenant, gpus)))
    keys.append((Level.SIZE, (4, gpus)))
    keys.append((Level.ANY, (5,)))
    return keys


def _limit_class(limit_ms: int | None) -> int:
    """`sleep 2` with a minute and `sleep 3600` with two hours differ by numbers alone: who gives a
    job four times as long takes it for another kind. 0: no limit."""
    return 0 if limit_ms is None else 1 + limit_ms.bit_length() // 2


def _quantiles(parts: list[_Part]) -> tuple[int, int]:
    """The least run times by which so many are over. They lie between those of the parts alone."""
    low = min(part.samples.quantile(part.before, part.own, _P50) for part in parts)
    high = max(part.samples.quantile(part.before, part.own, _P90) for part in parts)
    values: list[int] = []
    for part in parts:
        values += part.samples.between(low, high)
    values.sort()  # quick: each part is sorted already
    whole = sum(part.share for part in parts)
    last = len(values) - 1

    def over_by(duration_ms: int) -> int:
        return _over_by(parts, duration_ms) * _PERCENT

    # Shares are rounded down, so that the last may fall short by a hair.
    middle = min(last, bisect_left(values, whole * _P50, key=over_by))
    most = min(last, bisect_left(values, whole * _P90, lo=middle, key=over_by))
    return values[middle], values[most]


def _over_by(parts: list[_Part], duration_ms: int) -> int:
    total = 0
    for part in parts:
        over = part.samples.up_to(duration_ms) - part.before
        if over > 0:
            total += part.share * over // part.own
    return total
