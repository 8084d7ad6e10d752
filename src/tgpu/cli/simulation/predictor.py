"""Predictors of other packages in a simulation; their errors become a sentence.

The service goes on without one that fails. A comparison made without it would mislead.
"""

from collections.abc import Callable
from typing import TypeVar

from tgpu.core.prediction.runtimes import Facts, Prediction, Predictor

_T = TypeVar("_T")


class PredictorFailed(Exception):
    """With what it did."""


class WatchedPredictor:
    def __init__(self, predictor: Predictor, name: str) -> None:
        self._predictor = predictor
        self._name = name

    def learn(self, facts: Facts, duration_ms: int, at: int) -> None:
        self._watch(lambda: self._predictor.learn(facts, duration_ms, at))

    def predict(self, facts: Facts, elapsed_ms: int = 0, at: int = 0) -> Prediction | None:
        found = self._watch(lambda: self._predictor.predict(facts, elapsed_ms, at))
        if found is not None and not isinstance(found, Prediction):
            raise PredictorFailed(
                f"{self._name} answered {found!r}; it must be a Prediction or None"
            )
        return found

    def _watch(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except Exception as error:  # another package's code may fail in any way
            raise PredictorFailed(f"{self._name} failed: {type(error).__name__}: {error}") from None
