"""Figures by the definitions of published comparisons."""

import pytest

from tests.builders import a_job
from tgpu.core.model.lifecycle import JobState
from tgpu.simulate.measures import distribution, jain, shares, spread, summary
from tgpu.simulate.result import JobOutcome, Result
from tgpu.simulate.world import Arrival


def an_outcome(job_id, submitted=0, started=0, ended=10_000, runs=10_000, gpus=1, tenant="t"):
    job = a_job(job_id, tenant, gpus=gpus, submitted_at=submitted)
    arrival = Arrival(job, runs)
    return JobOutcome(arrival, JobState.COMPLETED, started, ended, last_start=started)


def of(*outcomes):
    return Result(outcomes, (), 7)


def test_wait_is_what_a_job_took_beyond_its_own_duration():
    found = summary(of(an_outcome("a"), an_outcome("b", 0, 20_000, 30_000)), 2)
    assert (found.jct_s.mean, found.wait_s.mean, found.wait_s.max) == (20.0, 10.0, 20.0)


def test_quantiles_lie_between_two_jobs_in_proportion():
    found = spread([0, 1_000, 2_000, 3_000, 4_000])
    assert (found.median, found.max) == (2.0, 4.0)
    assert found.p90 == pytest.approx(3.6)


def test_jobs_of_more_than_eight_gpus_are_shown_apart():
    found = summary(of(an_outcome("a", gpus=8), an_outcome("b", ended=40_000, gpus=16)), 16)
    assert (found.large_jobs, found.large_wait_s.mean) == (1, 30.0)


def test_use_is_of_all_gpus_from_the_first_arrival_to_the_last_end():
    found = summary(of(an_outcome("a"), an_outcome("b", 0, 10_000, 20_000)), 2)
    assert (found.makespan_s, found.use_percent) == (20.0, 50.0)


def test_the_slowdown_of_very_short_jobs_is_bounded():
    found = summary(of(an_outcome("a", 0, 9_000, 10_000, runs=1_000)), 1)
    assert found.mean_slowdown == 1.0


def test_jobs_that_never_start_are_counted_apart():
    never = JobOutcome(Arrival(a_job("b"), 5), JobState.PENDING, None, None)
    found = summary(of(an_outcome("a"), never), 1)
    assert (found.jobs, found.finished, found.unfinished) == (2, 1, 1)
    assert found.jct_s.mean == 10.0


def test_nothing_at_all_gives_zeros():
    found = summary(of(), 8)
    assert (found.jobs, found.jct_s.mean, found.use_percent, found.fairness) == (0, 0.0, 0.0, 1.0)


def test_shares_are_by_tenant():
    result = of(
        an_outcome("a", tenant="red"),
        an_outcome("b", tenant="blue", ended=30_000),
        an_outcome("c", tenant="blue"),
    )
    blue, red = shares(result)
    assert (blue.tenant, blue.jobs, blue.mean_wait_s) == ("blue", 2, 10.0)
    assert (red.tenant, red.mean_slowdown) == ("red", 1.0)


def test_the_index_of_fairness_is_one_where_all_are_alike():
    assert jain([2.0, 2.0, 2.0]) == 1.0
    assert jain([1.0, 0.0]) == 0.5
    assert jain([]) == 1.0


def test_a_distribution_ends_with_all_jobs_at_the_longest():
    points = distribution([3_000, 1_000, 2_000])
    assert points[0] == (1.0, 1 / 3)
    assert points[-1] == (3.0, 1.0)
    assert distribution([]) == []
