"""The predictor `gbm`: gradient-boosted trees for both quantiles, over what `history` knows.

Needs scikit-learn (the extra `ml`), for training alone: that happens in a thread of its own, every
so many jobs, and the finished trees are walked here in some tens of microseconds. Until the first
training is over, and for jobs that run already, `history` answers. When a training is over depends
on the machine, so replays need not agree with what ran; with `history` they do.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import expm1, log1p
from threading import Thread
from typing import Any, Final
from zlib import crc32

from tgpu.core.prediction.runtimes import Confidence, Facts, History, Level, Prediction

MOST_LESSONS: Final = 20_000  # the newest, trained on in some ten seconds of one core
LEAST_LESSONS: Final = 500
EVERY_LESSONS: Final = 2_000  # from one training to the next
_TREES: Final = 60
_DEPTH: Final = 5
_QUANTILES: Final = (0.5, 0.92)  # as in `history`, what comes next is a little unlike what was
_MOST_OWNERS: Final = 10_000
_LEVELS: Final = {level: number for number, level in enumerate(Level)}
_BUCKETS: Final = 1024  # of the hashes that stand for names

Row = tuple[float, ...]
# A leaf's value, or (feature, threshold, left, right): left where the feature is not above it.
Tree = float | tuple[int, float, "Tree", "Tree"]


@dataclass(frozen=True, slots=True)
class Boosted:
    """A trained sum of trees, of the logarithm of a run time in ms."""

    start: float
    rate: float
    trees: tuple[Tree, ...]

    def run_time_ms(self, row: Row) -> int:
        total = self.start
        for tree in self.trees:
            total += self.rate * _leaf(tree, row)
        return max(0, round(expm1(min(total, 35.0))))  # e ** 35 ms are fifty thousand years


Trained = tuple[Boosted, ...]
Train = Callable[[Sequence[Row], Sequence[float]], Trained]


class Gbm:
    """`in_background` off trains at once, where a measurement needs the same result each time."""

    def __init__(self, train: Train | None = None) -> None:
        if train is None:
            check_installed()
        self.in_background = True
        self._train = train or train_trees
        self._history = History()
        self._lessons: deque[tuple[Row, float]] = deque(maxlen=MOST_LESSONS)
        self._last: OrderedDict[tuple[str, str, int], deque[float]] = OrderedDict()
        self._since = 0
        self._thread: Thread | None = None
        self._error: Exception | None = None
        self._trained: Trained = ()
        self._samples = 0

    def learn(self, facts: Facts, duration_ms: int, at: int) -> None:
        truth = log1p(max(0, duration_ms))
        self._lessons.append((self._row(facts, at), truth))
        self._history.learn(facts, duration_ms, at)
        owner = _owner(facts)
        self._last.setdefault(owner, deque(maxlen=5)).append(truth)
        self._last.move_to_end(owner)
        if len(self._last) > _MOST_OWNERS:
            self._last.popitem(last=False)
        self._since += 1
        self._train_when_due()

    def predict(self, facts: Facts, elapsed_ms: int = 0, at: int = 0) -> Prediction | None:
        if self._error is not None:
            raise RuntimeError(f"training failed: {self._error}") from self._error
        if not self._trained or elapsed_ms:
            return self._history.predict(facts, elapsed_ms, at)
        row = self._row(facts, at)
        p50, p90 = (model.run_time_ms(row) for model in self._trained)
        if facts.time_limit_ms is not None:
            p50, p90 = min(p50, facts.time_limit_ms), min(p90, facts.time_limit_ms)
        return Prediction(p50, max(p50, p90), Confidence(Level.MODEL, self._samples))

    def _row(self, facts: Facts, at: int) -> Row:
        told = self._history.predict(facts, 0, at)
        last = self._last.get(_owner(facts))
        return (
            -1.0 if told is None else log1p(told.p50_ms),
            -1.0 if told is None else log1p(told.p90_ms),
            -1.0 if told is None else float(_LEVELS[told.confidence.level]),
            -1.0 if told is None else float(told.confidence.samples),
            last[-1] if last else -1.0,
            sum(last) / len(last) if last else -1.0,
            float(facts.gpu_millis),
            -1.0 if facts.time_limit_ms is None else log1p(facts.time_limit_ms),
            _bucket(facts.tenant_id),
            _bucket(facts.user),
            _bucket(facts.name),
            _bucket(facts.command),
        )

    def _train_when_due(self) -> None:
        # Soon again while little is known: trees of a few hundred jobs are soon out of date.
        wanted = min(EVERY_LESSONS, max(LEAST_LESSONS, self._samples) // 4)
        if len(self._lessons) < LEAST_LESSONS:
            return
        if self._since < wanted or (self._thread is not None and self._thread.is_alive()):
            return
        self._since = 0
        lessons = list(self._lessons)
        if not self.in_background:
            self._train_on(lessons)
            return
        # A daemon: nobody waits for it when the service ends.
        self._thread = Thread(
            target=self._train_on, args=(lessons,), name="train predictor", daemon=True
        )
        self._thread.start()

    def _train_on(self, lessons: list[tuple[Row, float]]) -> None:
        try:
            trained = self._train([row for row, _ in lessons], [truth for _, truth in lessons])
        except Exception as error:  # told where somebody hears it: when it is asked next
            self._error = error
            return
        self._samples, self._trained = len(lessons), trained


def check_installed() -> None:
    """ImportError says what to install."""
    try:
        import sklearn.ensemble  # noqa: F401  # only to see that it is there
    except ImportError as error:
        raise ImportError("the predictor gbm needs scikit-learn: pip install 'tgpu[ml]'") from error


def train_trees(rows: Sequence[Row], truths: Sequence[float]) -> Trained:
    return tuple(_train_one(rows, truths, quantile) for quantile in _QUANTILES)


def _train_one(rows: Sequence[Row], truths: Sequence[float], quantile: float) -> Boosted:
    from sklearn.ensemble import GradientBoostingRegressor

    model = GradientBoostingRegressor(
        loss="quantile",
        alpha=quantile,
        n_estimators=_TREES,
        max_depth=_DEPTH,
        min_samples_leaf=30,
        subsample=0.5,
        random_state=0,
    )
    model.fit(list(rows), list(truths))
    start = float(model.init_.constant_.ravel()[0])
    trees = tuple(_tree(each[0].tree_) for each in model.estimators_)
    return Boosted(start, model.learning_rate, trees)


def _tree(arrays: Any, node: int = 0) -> Tree:
    """Out of scikit-learn's arrays; a leaf has no children."""
    left, right = int(arrays.children_left[node]), int(arrays.children_right[node])
    if left == right:
        return float(arrays.value[node].ravel()[0])
    return (
        int(arrays.feature[node]),
        float(arrays.threshold[node]),
        _tree(arrays, left),
        _tree(arrays, right),
    )


def _leaf(tree: Tree, row: Row) -> float:
    while isinstance(tree, tuple):
        feature, threshold, left, right = tree
        tree = left if row[feature] <= threshold else right
    return tree


def _owner(facts: Facts) -> tuple[str, str, int]:
    return (facts.tenant_id, facts.user, facts.gpu_millis)


def _bucket(text: str) -> float:
    return float(crc32(text.encode()) % _BUCKETS) if text else -1.0
