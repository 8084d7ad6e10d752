"""The accuracy of a predictor on past jobs. Nothing here affects scheduling.

Every job is predicted as it was submitted, from those that were over by then.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple

from tgpu.core.prediction.runtimes import Confidence, Facts, Level, Prediction, Predictor


class PastJob(NamedTuple):
    facts: Facts
    submitted_at: int
    duration_ms: int
    ended_at: int
    scored: bool = True  # False: learned from alone


class PredictionOutcome(NamedTuple):
    predicted: Prediction
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Score:
    """Shares are of the jobs that were predicted. Errors are of the p50, in ms."""

    jobs: int
    unpredicted: int  # jobs about which nothing could be said
    under_p50: float  # run times that equal the prediction count half: many last the same seconds
    under_p90: float  # … and are under this one
    median_error_ms: int
    mean_error_ms: int
    rank_correlation: float  # Spearman's: 1 for the same order, 0 for none
    levels: tuple[tuple[str, int], ...]  # what the predictions rested on, and how often


_KINDS: Final = 10_000


class LastTwo:
    """What predictors are measured against: the median of the last two jobs of the same user with
    as many GPUs; without a user, of anybody's with as many GPUs."""

    def __init__(self) -> None:
        self._recent: OrderedDict[tuple[str, str, int], deque[int]] = OrderedDict()

    def learn(self, facts: Facts, duration_ms: int, at: int) -> None:
        for key in self._keys(facts):
            self._recent.setdefault(key, deque(maxlen=2)).append(duration_ms)
            self._recent.move_to_end(key)
        while len(self._recent) > _KINDS:
            self._recent.popitem(last=False)

    def predict(self, facts: Facts, elapsed_ms: int = 0, at: int = 0) -> Prediction | None:
        for key in self._keys(facts):
            recent = self._recent.get(key)
            if recent:
                middle = sum(recent) // len(recent)
                confidence = Confidence(Level.USER if facts.user else Level.SIZE, len(recent))
                return Prediction(middle, max(recent), confidence)
        return None

    def _keys(self, facts: Facts) -> list[tuple[str, str, int]]:
        own = (facts.tenant_id, facts.user, facts.gpu_millis)
        return [own, ("", "", facts.gpu_millis)] if own[0] or own[1] else [own]


def outcomes(jobs: Iterable[PastJob], predictor: Predictor) -> Iterator[PredictionOutcome | None]:
    """For each scored job what was predicted, and what came; None where nothing was."""
    ends: list[tuple[int, int, PastJob]] = []
    for number, job in enumerate(sorted(jobs, key=lambda job: job.submitted_at)):
        while ends and ends[0][0] <= job.submitted_at:
            ended_at, _, over = heappop(ends)
            predictor.learn(over.facts, over.duration_ms, ended_at)
        if job.scored:
            predicted = predictor.predict(job.facts, 0, job.submitted_at)
            yield None if predicted is None else PredictionOutcome(predicted, job.duration_ms)
        heappush(ends, (job.ended_at, number, job))


def score(results: Iterable[PredictionOutcome | None]) -> Score:
    """ValueError where nothing was predicted."""
    told: list[PredictionOutcome] = []
    untold = 0
    levels: dict[str, int] = {}
    for each in results:
        if each is None:
            untold += 1
            continue
        told.append(each)
        level = each.predicted.confidence.level.value
        levels[level] = levels.get(level, 0) + 1
    if not told:
        raise ValueError("no job could be predicted")
    middles = [each.predicted.p50_ms for each in told]
    truths = [each.duration_ms for each in told]
    errors = sorted(abs(p50 - truth) for p50, truth in zip(middles, truths, strict=True))
    below = sum(2 * (d < p) + (d == p) for p, d in zip(middles, truths, strict=True))
    return Score(
        jobs=len(told),
        unpredicted=untold,
        under_p50=below / (2 * len(told)),
        under_p90=sum(d.duration_ms <= d.predicted.p90_ms for d in told) / len(told),
        median_error_ms=errors[len(errors) // 2],
        mean_error_ms=sum(errors) // len(errors),
        rank_correlation=rank_correlation(middles, truths),
        levels=tuple(sorted(levels.items(), key=lambda each: (-each[1], each[0]))),
    )


def rank_correlation(left: Sequence[int], right: Sequence[int]) -> float:
    """Spearman's, equal values sharing their ranks; 0 where one side is all the same."""
    first, second = _ranks(left), _ranks(right)
    middle = len(first) - 1  # ranks are doubled, so this is their mean
    both = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
    spread = sum((a - middle) ** 2 for a in first) * sum((b - middle) ** 2 for b in second)
    return float(both / spread**0.5) if spread else 0.0


def _ranks(values: Sequence[int]) -> list[int]:
    """Twice the rank of each, so that shared ranks are whole."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end + 1 < len(order) and values[order[end + 1]] == values[order[begin]]:
            end += 1
        for place in range(begin, end + 1):
            ranks[order[place]] = begin + end
        begin = end + 1
    return ranks
