"""Questions about jobs that nobody has submitted."""

from tests.builders import a_gpu, a_job, a_node, a_state, start
from tgpu.core.explain.changes import ChangeKind
from tgpu.core.model.job import Job
from tgpu.core.policies import order_policy
from tgpu.core.projection.queue_projection import RunLength
from tgpu.core.projection.snapshot import picture
from tgpu.core.projection.start_sooner import (
    ForecastBasis,
    ForecastStarts,
    SoonerStart,
    as_new,
    play,
    sooner_starts,
)
from tgpu.core.scheduling_config import CycleContext, SchedulingConfig
from tgpu.core.state.cluster_state import State

HOUR = 3_600_000


def an_hour(_: Job, __: int) -> RunLength:
    return RunLength(HOUR)


def a_basis(state: State | None = None) -> ForecastBasis:
    policy = order_policy("fifo")
    taken = picture(state or full(), 0, policy, {}, 100)
    return ForecastBasis(taken, 0, CycleContext(SchedulingConfig(policy)), an_hour)


def asked(basis: ForecastBasis, jobs: list[Job]) -> list[ForecastStarts]:
    return [one for one in play(basis, jobs, 100) if one is not None]


def full(*others: Job) -> State:
    """Two A100 that are busy for an hour, and two H100 that are free."""
    gpus = [a_gpu(0), a_gpu(1), a_gpu(2, "H100"), a_gpu(3, "H100")]
    state = a_state(a_job("r", gpus=2, gpu_type="A100"), *others, nodes=[a_node(gpus=gpus)])
    start(state, "r", 0, 1)
    return state


def found(basis: ForecastBasis, job: Job, starts_at: int, budget: int = 1000) -> list[SoonerStart]:
    return [one for one in sooner_starts(basis, job, starts_at, budget) if one is not None]


def test_a_new_job_stands_behind_all_that_wait() -> None:
    basis = a_basis(full(a_job("before", gpus=2, gpu_type="A100", submitted_at=0)))
    job = as_new(a_job("new", gpu_type="A100"), 0)
    assert asked(basis, [job])[-1].first_at == 2 * HOUR


def test_of_many_the_first_and_the_last_are_told() -> None:
    jobs = [as_new(a_job(f"{number}", gpus=2, gpu_type="A100"), 0) for number in range(3)]
    last = asked(a_basis(), jobs)[-1]
    assert (last.first_at, last.last_at) == (HOUR, 3 * HOUR)


def test_what_starts_at_once_is_known_after_one_step() -> None:
    job = as_new(a_job("new", gpu_type="H100"), 0)
    assert [one.first_at for one in asked(a_basis(), [job])] == [0]


def test_another_type_that_is_free_is_the_cheapest_change() -> None:
    job = as_new(a_job("new", gpus=2, gpu_type="A100"), 0)
    (first, *_) = found(a_basis(), job, HOUR)
    assert first.change.kind is ChangeKind.GPU_TYPE
    assert (first.change.job.request.gpu_type, first.at) == ("H100", 0)


def test_fewer_gpus_that_start_sooner_though_not_at_once_are_told_too() -> None:
    state = a_state(a_job("r", gpus=2), a_job("s", gpus=2), nodes=[a_node(gpus=4)])
    start(state, "r", 0, 1)
    start(state, "s", 2, 3, at=-HOUR // 2)
    (only,) = found(a_basis(state), as_new(a_job("new", gpus=4), 0), HOUR)
    assert only.change.kind is ChangeKind.GPUS
    assert (only.change.job.request.gpu_millis, only.at) == (2000, HOUR // 2)


def test_what_gains_less_than_a_tenth_is_not_worth_telling() -> None:
    job = as_new(a_job("new", gpus=2, gpu_type="A100"), 0)
    assert found(a_basis(), job, 30_000) == []


def test_the_search_ends_with_its_budget() -> None:
    job = as_new(a_job("new", gpus=2, gpu_type="A100"), 0)
    assert found(a_basis(), job, HOUR, budget=0) == []
