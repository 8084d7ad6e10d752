"""Filling a cluster with a list of requests."""

import gzip
from pathlib import Path

import pytest

from tgpu.core.model.job import Request
from tgpu.core.model.node import Node
from tgpu.core.model.request_profile import RequestProfile, RequestShape
from tgpu.simulate.clusters import read_cluster
from tgpu.simulate.packing import Pod, mix_of, order, pack, read_pods
from tgpu.simulate.problems import BadInput

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"


def written(tmp_path: Path, *lines: str, header: str = HEADER) -> Path:
    path = tmp_path / "pods.csv"
    path.write_text("\n".join((header, *lines)) + "\n")
    return path


def nodes(words: str) -> list[Node]:
    return [node for group in read_cluster(words).partitions.values() for node in group]


def test_requests_are_read_as_the_published_lists_have_them(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "a,3000,100,1,810,",
        "b,8000,200,4,1000,A100|H100",
        "c,12000,300,0,0,",
    )
    a, b, c = (pod.request for pod in read_pods(path))
    assert (a.gpu_millis, a.cpu_millis, a.mem_mib) == (810, 3000, 100)
    assert (b.gpu_millis, b.where.gpu_types) == (4000, ("A100", "H100"))
    assert (c.gpu_millis, c.cpu_millis) == (0, 12000)


def test_packed_files_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv.gz"
    path.write_bytes(gzip.compress(b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,500\n"))
    assert read_pods(path)[0].request == Request(500, cpu_millis=1, mem_mib=1)


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("a,x,1,1,500,", "cpu_milli"),
        ("a,1,-1,1,500,", "memory_mib"),
        ("a,1,1,1.5,500,", "num_gpu"),
        ("a,1,1,9999999,1000,", "num_gpu"),
        ("a,1,1,1,0,", "gpu_milli"),
        ("a,1,1,1,1001,", "gpu_milli"),
        (",1,1,1,500,", "name"),
        ("good,1,1,1,500,", "name"),
    ],
)
def test_a_bad_line_is_named_with_its_column(tmp_path: Path, line: str, column: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_pods(written(tmp_path, "good,1,1,1,500,", line))
    (problem,) = refused.value.problems
    assert (problem.line, problem.column) == (3, column)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="gpu_milli: this column is missing"):
        read_pods(written(tmp_path, header="name,cpu_milli,memory_mib,num_gpu"))


def test_a_list_in_which_nobody_wants_a_gpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no requests for GPUs"):
        read_pods(written(tmp_path, "a,1,1,0,0,"))


def test_an_order_is_the_whole_list_and_then_some_of_it_again() -> None:
    pods = [Pod(f"p{number}", Request(100 * number)) for number in range(1, 5)]
    found = order(pods, 42, 2500)
    assert sorted(request.gpu_millis for request in found[:4]) == [100, 200, 300, 400]
    assert 2100 < sum(request.gpu_millis for request in found) <= 2500
    assert order(pods[::-1], 42, 2500) == found
    assert order(pods, 43, 2500) != found


def test_an_order_ends_before_more_is_wanted_than_shall_be() -> None:
    pods = [Pod(f"p{number}", Request(1000)) for number in range(10)]
    assert len(order(pods, 0, 3500)) == 3


def test_the_mix_is_that_of_the_list() -> None:
    pods = [Pod("a", Request(500)), Pod("b", Request(500)), Pod("c", Request(1000))]
    assert mix_of(pods) == RequestProfile(((RequestShape(500), 6666), (RequestShape(1000), 3333)))


def test_what_fits_nowhere_is_dropped_and_the_rest_is_counted() -> None:
    requests = [Request(1000), Request(3000), Request(500), Request(400), Request(200)]
    found = pack(nodes("1x2"), requests, RequestProfile(((RequestShape(1000), 10_000),)))
    assert (found.requests, found.dropped) == (5, 2)
    assert found.allocated_millis == 1900
    assert found.allocated_percent == 95.0


def test_who_wants_no_gpu_takes_cores_where_they_are_missed_least(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("name,gpus,model,cpu_milli\nfew,8,A,64000\nmany,2,B,64000\n")
    mix = RequestProfile(((RequestShape(1000, 8_000), 10_000),))
    requests = [Request(0, cpu_millis=32_000)] + [Request(1000, cpu_millis=8_000)] * 10
    found = pack(nodes(str(path)), requests, mix)
    assert found.allocated_percent == 100.0


def test_shares_go_where_the_rest_still_serves_somebody() -> None:
    """Sixty of each: every GPU is full only if each 0.7 finds a 0.3."""
    pods = [Pod(f"{millis}-{at}", Request(millis)) for millis in (300, 700) for at in range(60)]
    mix = mix_of(pods)
    shares = [pack(nodes("15x4"), order(pods, s, 60_000), mix).allocated_percent for s in range(3)]
    assert min(shares) > 94


def test_progress_is_told() -> None:
    told: list[int] = []
    pack(nodes("10x8"), [Request(100)] * 250, None, tell=told.append)
    assert told == [100, 100]
