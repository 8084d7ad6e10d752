"""The plug-in surface for predictors, and how any is found."""

from importlib.metadata import EntryPoint

import pytest

from tgpu import predictors
from tgpu.predictors import History, LimitPredictor, NoPredictor, load_predictor


class Oracle:
    def learn(self, facts, duration_ms, at):
        pass

    def predict(self, facts, elapsed_ms=0, at=0):
        return None


class Fails(Oracle):
    def __init__(self):
        raise RuntimeError("no licence")


class NoPredictorAtAll:
    pass


@pytest.fixture
def installed(monkeypatch):
    def install(**values: str) -> None:
        points = [EntryPoint(name, value, predictors.GROUP) for name, value in values.items()]
        monkeypatch.setattr(predictors, "entry_points", lambda group: points)

    install()
    return install


@pytest.mark.parametrize(
    ("name", "kind"), [("history", History), ("limit", LimitPredictor), ("none", NoPredictor)]
)
def test_the_built_in_ones_are_found_by_name(name, kind):
    assert isinstance(load_predictor(name)(), kind)


def test_one_of_another_package_is_found_by_name(installed):
    installed(oracle=f"{__name__}:Oracle")
    assert isinstance(load_predictor("oracle")(), Oracle)
    assert predictors.predictor_names() == ["history", "limit", "none", "gbm", "oracle"]


def test_an_unknown_one_is_refused_with_the_names_there_are(installed):
    installed(oracle=f"{__name__}:Oracle")
    match = "no predictor 'tarot'; there are: history, limit, none, gbm, oracle"
    with pytest.raises(ValueError, match=match):
        load_predictor("tarot")


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("Fails", "cannot be loaded: no licence"),
        ("Missing", "cannot be loaded"),
        ("NoPredictorAtAll", "needs learn and predict"),
    ],
)
def test_one_that_cannot_be_used_is_refused_with_a_sentence(installed, target, sentence):
    installed(oracle=f"{__name__}:{target}")
    with pytest.raises(ValueError, match=sentence):
        load_predictor("oracle")
