"""The predictor of boosted trees: what it does around its training."""

import builtins
from threading import Event

import pytest

from tgpu.core.prediction.runtimes import Facts, History, Level
from tgpu.predictors import gbm
from tgpu.predictors.gbm import Boosted, Gbm, check_installed, train_trees

ADA = Facts("t", "ada", 1000)
FLAT = (Boosted(1.0, 0.1, ()), Boosted(2.0, 0.1, ()))


def taught(predictor: Gbm, count: int) -> Gbm:
    for number in range(count):
        predictor.learn(ADA, 1000 + number % 7, number)
    return predictor


def inline(train) -> Gbm:
    predictor = Gbm(train)
    predictor.in_background = False
    return predictor


def test_until_it_is_trained_history_answers():
    predictor, history = Gbm(lambda rows, truths: FLAT), History()
    for number in range(50):
        predictor.learn(ADA, number, number)
        history.learn(ADA, number, number)
    assert predictor.predict(ADA, 0, 60) == history.predict(ADA, 0, 60)


def test_it_trains_when_enough_is_known_and_again_as_more_comes():
    sizes: list[int] = []

    def train(rows, truths):
        assert len(rows) == len(truths)
        sizes.append(len(rows))
        return FLAT

    taught(inline(train), 1000)
    assert sizes[0] == gbm.LEAST_LESSONS
    assert len(sizes) > 2


def test_once_trained_the_trees_answer_and_running_jobs_are_told_by_history():
    predictor = taught(inline(lambda rows, truths: FLAT), 600)
    found = predictor.predict(ADA)
    assert found is not None
    assert (found.p50_ms, found.p90_ms) == (2, 6)  # e - 1 and e * e - 1
    assert found.confidence.level is Level.MODEL
    running = predictor.predict(ADA, 1003)
    assert running is not None
    assert running.p50_ms > 1003


def test_quantiles_that_cross_are_put_in_order_and_limits_hold():
    predictor = taught(inline(lambda rows, truths: FLAT[::-1]), 600)
    found = predictor.predict(ADA)
    assert found is not None
    assert found.p50_ms == found.p90_ms == 6
    limited = predictor.predict(Facts("t", "ada", 1000, time_limit_ms=3))
    assert limited is not None
    assert limited.p90_ms == 3


def test_training_does_not_keep_anybody_waiting():
    is_allowed, is_trained = Event(), Event()

    def train(rows, truths):
        assert is_allowed.wait(30)
        is_trained.set()
        return FLAT

    predictor = taught(Gbm(train), 800)
    found = predictor.predict(ADA)  # the training is still under way
    assert found is not None
    assert found.confidence.level is Level.USER
    is_allowed.set()
    assert is_trained.wait(30)


def test_a_training_that_failed_is_told_to_who_asks():
    def train(rows, truths):
        raise MemoryError("too much")

    predictor = taught(inline(train), 600)
    with pytest.raises(RuntimeError, match="training failed: too much"):
        predictor.predict(ADA)


def test_trees_are_walked_by_their_thresholds():
    tree = (0, 5.0, 1.0, (1, 0.0, 2.0, 3.0))
    model = Boosted(0.0, 1.0, (tree,))
    assert model.run_time_ms((5.0, 9.0)) == round(2.718281828 - 1)
    assert model.run_time_ms((6.0, 0.0)) == 6
    assert model.run_time_ms((6.0, 0.1)) == 19


def test_without_the_library_it_says_what_to_install(monkeypatch):
    whole = builtins.__import__

    def without(name, *rest):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return whole(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'tgpu\[ml\]'"):
        Gbm()


def test_trained_trees_tell_users_apart():
    pytest.importorskip("sklearn")
    check_installed()
    rows = [(float(number % 2), float(number % 5)) for number in range(400)]
    truths = [3.0 + 4.0 * row[0] for row in rows]
    p50, p90 = train_trees(rows, truths)
    short, long = p50.run_time_ms((0.0, 1.0)), p50.run_time_ms((1.0, 1.0))
    assert 15 <= short <= 25
    assert long > 30 * short
    assert p90.run_time_ms((1.0, 1.0)) >= 0.9 * long
