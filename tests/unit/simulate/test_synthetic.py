"""Invented traces."""

from tgpu.simulate.clusters import read_cluster
from tgpu.simulate.jobs import Jobs
from tgpu.simulate.synthetic import synthetic


def test_the_same_seed_makes_the_same_jobs():
    cluster = read_cluster("4x8")
    assert synthetic(50, cluster, 7) == synthetic(50, cluster, 7)
    assert synthetic(50, cluster, 7).jobs != synthetic(50, cluster, 8).jobs


def test_every_job_fits_the_cluster_and_none_is_wider():
    cluster = read_cluster("1x2")
    found = Jobs(synthetic(300, cluster), cluster)
    assert (len(found.arrivals), found.problems) == (300, [])


def test_the_load_is_about_what_the_cluster_can_bear():
    cluster = read_cluster("10x8")
    rows = synthetic(5_000, cluster, 1).jobs
    work = sum(row.run_ms * row.gpu_millis for row in rows)
    assert 0.7 < work / (cluster.gpus() * 1000 * rows[-1].submit_ms) < 1.0
