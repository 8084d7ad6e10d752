"""Rows become jobs of a cluster: gangs, partitions, time limits, and what can never run."""

import pytest

from tgpu.simulate.clusters import read_cluster
from tgpu.simulate.jobs import Jobs, SimulatedLimits
from tgpu.simulate.rows import TraceRow, TraceRows


def jobs_of(*rows, cluster="4x8", limits=SimulatedLimits.GIVEN):
    return Jobs(TraceRows("jobs.csv", "csv", list(rows)), read_cluster(cluster), limits)


def a_row(job_id="1", gpus=1, **fields):
    return TraceRow(2, job_id, 0, 60_000, round(gpus * 1000), **fields)


@pytest.mark.parametrize(("gpus", "workers"), [(1, 1), (8, 1), (12, 3), (16, 2), (20, 5), (9, 9)])
def test_a_job_larger_than_a_node_is_a_gang_without_a_rest(gpus, workers):
    (arrival,) = jobs_of(a_row(gpus=gpus)).arrivals
    assert arrival.job.request.workers == workers
    assert arrival.job.request.gpu_millis == gpus * 1000


def test_jobs_that_are_alike_share_their_request_and_options():
    first, second = jobs_of(a_row("1"), a_row("2")).arrivals
    assert first.job.request is second.job.request
    assert first.job.options is second.job.options


def test_ids_that_are_numbers_are_compared_as_numbers():
    found = jobs_of(a_row("9"), a_row("10"), a_row("x")).arrivals
    assert [arrival.job.job_id for arrival in found] == ["09", "10", "x"]


def test_a_job_stays_in_its_partition_and_belongs_to_it():
    found = jobs_of(a_row("1", partition="a"), a_row("2", partition="b"), cluster="a=1x8,b=1x8")
    assert [(one.partition, one.job.tenant_id) for one in found.arrivals] == [
        ("a", "a"),
        ("b", "b"),
    ]


def test_one_pool_takes_the_jobs_of_all_partitions():
    found = jobs_of(a_row("1", partition="a"), a_row("2", partition="b"))
    assert {one.partition for one in found.arrivals} == {""}


def test_an_unknown_partition_is_a_problem():
    found = jobs_of(a_row(partition="z"), cluster="a=1x8")
    assert found.arrivals == []
    assert found.problems[0].sentence().startswith("line 2, partition: 'z' is not a partition")


@pytest.mark.parametrize("gpus", [33, 8.5, 100])
def test_a_job_larger_than_the_cluster_is_a_problem(gpus):
    found = jobs_of(a_row(gpus=gpus))
    assert found.arrivals == []
    assert [one.kind for one in found.problems] == ["larger than the cluster"]


def test_limits_are_those_given_none_or_the_true_durations():
    row = a_row(time_limit_ms=5_000)

    def limit(limits):
        (arrival,) = jobs_of(row, limits=limits).arrivals
        return arrival.job.options.time_limit_ms

    assert [limit(each) for each in SimulatedLimits] == [5_000, None, 60_000]
