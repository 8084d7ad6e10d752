"""How good a predictor is."""

import pytest

from tgpu.core.prediction.calibration import (
    LastTwo,
    PastJob,
    PredictionOutcome,
    outcomes,
    rank_correlation,
    score,
)
from tgpu.core.prediction.runtimes import Confidence, Facts, History, Level, Prediction

ADA = Facts("t", "ada", 1000)


def past(submitted_at: int, duration_ms: int, facts: Facts = ADA, scored: bool = True) -> PastJob:
    return PastJob(facts, submitted_at, duration_ms, submitted_at + duration_ms, scored)


def outcome(p50: int, p90: int, truth: int) -> PredictionOutcome:
    return PredictionOutcome(Prediction(p50, p90, Confidence(Level.USER, 1)), truth)


def test_a_job_is_predicted_from_those_that_were_over_when_it_came():
    found = list(outcomes([past(0, 100), past(50, 10), past(100, 7)], History()))
    assert found[:2] == [None, None]
    assert found[2] is not None
    assert found[2].predicted.confidence.samples == 2


def test_jobs_of_the_history_are_learned_from_and_not_scored():
    assert len(list(outcomes([past(0, 5, scored=False), past(10, 5)], History()))) == 1


def test_the_order_of_the_list_does_not_matter():
    jobs = [past(n, n * 7 % 31) for n in range(50)]
    assert list(outcomes(jobs, History())) == list(outcomes(jobs[::-1], History()))


def test_shares_errors_and_levels_are_counted():
    found = score([outcome(10, 20, 5), outcome(10, 20, 10), outcome(10, 20, 30), None])
    assert (found.jobs, found.unpredicted) == (3, 1)
    assert found.under_p50 == 0.5  # one under, one equal, one above
    assert found.under_p90 == pytest.approx(2 / 3)
    assert (found.median_error_ms, found.mean_error_ms) == (5, 8)
    assert found.levels == (("user", 3),)


def test_nothing_predicted_is_no_score():
    with pytest.raises(ValueError, match="no job could be predicted"):
        score([None])


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 99], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 1, 2, 2], [1, 2, 1, 2], 0.0),
        ([1, 2, 3], [5, 5, 5], 0.0),
    ],
)
def test_ranks_are_compared_not_values(left, right, expected):
    assert rank_correlation(left, right) == pytest.approx(expected)


def test_the_baseline_is_the_middle_of_the_user_s_last_two_jobs():
    last = LastTwo()
    for duration in (1000, 10, 20):
        last.learn(ADA, duration, 0)
    found = last.predict(ADA)
    assert found is not None
    assert (found.p50_ms, found.p90_ms) == (15, 20)
    other = last.predict(Facts("t", "bob", 1000))
    assert other is not None  # somebody's with as many GPUs
    assert other.p50_ms == 15
    assert last.predict(Facts("t", "ada", 2000)) is None


def test_quantiles_hold_on_run_times_with_a_long_tail():
    """Each user has a typical length; a few jobs run a thousand times as long as most."""
    spread = [100 + 1_000_000 // (10 + n * n) for n in range(97)]
    jobs = []
    for number in range(3000):
        user = number * 7919 % 23
        factor = spread[number * 104_729 % 9973 % len(spread)]
        facts = Facts("t", f"u{user}", 1000 * (1 + user % 3))
        jobs.append(past(number * 60_000, (user + 1) * factor, facts, number > 500))
    found = score(outcomes(jobs, History()))
    assert abs(found.under_p50 - 0.5) <= 0.05
    assert abs(found.under_p90 - 0.9) <= 0.05
