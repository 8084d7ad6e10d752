"""Run-time predictors for plug-in authors.

A predictor of your own is a class with `learn` and `predict`, named in your package's metadata:

    [project.entry-points."tgpu.predictors"]
    oracle = "my_package:Oracle"

and chosen with `prediction.predictor: oracle`. It is told every job that ended and asked about
those that wait or run. Both calls come from the scheduling loop: answer from memory, at once, and
learn slowly elsewhere. One that fails is reported, and time limits take its place.
"""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from tgpu.core.prediction.runtimes import (
    Confidence,
    Facts,
    History,
    Level,
    LimitPredictor,
    NoPredictor,
    Prediction,
    Predictor,
    template,
)
from tgpu.predictors.gbm import Gbm

__all__ = [
    "Confidence",
    "Facts",
    "Gbm",
    "History",
    "Level",
    "LimitPredictor",
    "NoPredictor",
    "Prediction",
    "Predictor",
    "load_predictor",
    "predictor_names",
    "template",
]

GROUP: Final = "tgpu.predictors"
PREDICTOR_NAMES: Final = ("history", "limit", "none", "gbm")

_BUILT_IN: Final[dict[str, Callable[[], Predictor]]] = {
    "history": History,
    "limit": LimitPredictor,
    "none": NoPredictor,
    "gbm": Gbm,
}


def load_predictor(name: str) -> Callable[[], Predictor]:
    """Makes new ones of this name, built in or installed. ValueError says which there are, or
    what is wrong with it."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _plugged_in(point)
    raise ValueError(f"no predictor {name!r}; there are: {', '.join(predictor_names())}")


def predictor_names() -> list[str]:
    """Built-in predictors first, then those of other packages."""
    installed = {point.name for point in entry_points(group=GROUP)}
    return [*PREDICTOR_NAMES, *sorted(installed.difference(PREDICTOR_NAMES))]


def _plugged_in(point: EntryPoint) -> Callable[[], Predictor]:
    """Made once here to see that it can be."""
    try:
        make = point.load()
        made = make()
    except Exception as error:  # another package's code may fail in any way
        raise ValueError(
            f"predictor {point.name!r} ({point.value}) cannot be loaded: {error}"
        ) from error
    if not (callable(getattr(made, "learn", None)) and callable(getattr(made, "predict", None))):
        raise ValueError(
            f"predictor {point.name!r} ({point.value}) is no tgpu.predictors.Predictor: "
            "it needs learn and predict"
        )
    return make  # type: ignore[no-any-return]  # what entry points give has no type
