"""The cheapest change that starts a job: the least is taken away, and it really starts."""

import pytest

from tests.builders import a_gpu, a_job, a_node, a_queue, a_state, a_tenant, hold, start
from tests.unit.core.explain.worlds import help_for
from tgpu.core.explain.changes import ChangeKind, short_of, smaller_counts
from tgpu.core.model.job import Job
from tgpu.core.model.rules import PLAIN, BackfillMode, Rules
from tgpu.core.state.cluster_state import State

EASY = Rules(backfill=BackfillMode.EASY)


def changed(state: State, rules: Rules = PLAIN) -> tuple[ChangeKind, Job]:
    found = help_for(state, rules=rules)
    assert found is not None
    return found.kind, found.job


def test_fewer_gpus_and_of_those_as_many_as_possible() -> None:
    state = a_state(a_job("a"), a_job("j", gpus=4, gpu_mem_mib=4000), nodes=[a_node(gpus=4)])
    start(state, "a", 0)
    kind, job = changed(state)
    assert (kind, job.request.gpu_millis, job.request.gpu_mem_mib) == (ChangeKind.GPUS, 3000, 3000)


def test_a_part_of_a_gpu_where_no_whole_one_is_left() -> None:
    state = a_state(a_job("a", gpus=0.5), a_job("j"), nodes=[a_node(gpus=1)])
    start(state, "a", 0, millis=500)
    kind, job = changed(state)
    assert (kind, job.request.gpu_millis) == (ChangeKind.GPUS, 500)


def test_another_type_rather_than_fewer_gpus() -> None:
    gpus = [a_gpu(0), a_gpu(1), a_gpu(2, "H100"), a_gpu(3, "H100")]
    state = a_state(a_job("a"), a_job("j", gpus=2, gpu_type="A100"), nodes=[a_node(gpus=gpus)])
    start(state, "a", 0)
    kind, job = changed(state)
    assert (kind, job.request.gpu_type) == (ChangeKind.GPU_TYPE, "H100")


def test_of_other_types_the_one_with_as_much_memory_comes_first() -> None:
    gpus = [a_gpu(0), a_gpu(1, "H100", mem_mib=81_920), a_gpu(2, "B200", mem_mib=192_000)]
    gpus.append(a_gpu(3, "A30", mem_mib=24_000))
    state = a_state(a_job("a"), a_job("j", gpu_type="A100"), nodes=[a_node(gpus=gpus)])
    start(state, "a", 0)
    assert changed(state)[1].request.gpu_type == "H100"


def test_a_time_limit_where_it_would_pass_a_reservation_by_that() -> None:
    state = a_state(
        a_job("a", time_limit_ms=3_600_000),
        a_job("big", gpus=2, submitted_at=1),
        a_job("j", submitted_at=2),
        nodes=[a_node(gpus=2)],
    )
    start(state, "a", 0)
    kind, job = changed(state, EASY)
    assert (kind, job.options.time_limit_ms) == (ChangeKind.TIME_LIMIT, 54 * 60_000)


def test_another_queue_where_its_own_is_full() -> None:
    state = a_state(
        a_job("j", queue="q"), queues=[a_queue("q", max_running_jobs=0), a_queue("night")]
    )
    kind, job = changed(state)
    assert (kind, job.queue) == (ChangeKind.QUEUE, "night")


def test_a_condition_less_where_that_is_what_keeps_it() -> None:
    state = a_state(
        a_job("a"),
        a_job("j", gpu_type="A100", nodes=("n0",)),
        nodes=[a_node("n0", 1), a_node("n1", 1)],
    )
    start(state, "a", 0, node="n0")
    found = help_for(state)
    assert found is not None
    assert (found.kind, found.name) == (ChangeKind.CONDITION, "nodes")
    assert found.job.request.where.nodes == ()


def test_fewer_cores_where_those_are_short_and_all_that_are_left() -> None:
    state = a_state(a_job("a", cpus=5), a_job("j", cpus=8), nodes=[a_node(cpus=8)])
    start(state, "a", 0)
    kind, job = changed(state)
    assert (kind, job.request.cpu_millis) == (ChangeKind.CPU, 3000)


def test_less_memory_where_that_is_short() -> None:
    state = a_state(a_job("a", mem_mib=70), a_job("j", mem_mib=100), nodes=[a_node(mem_mib=100)])
    start(state, "a", 0)
    kind, job = changed(state)
    assert (kind, job.request.mem_mib) == (ChangeKind.MEMORY, 30)


def test_less_memory_of_each_gpu_where_no_gpu_has_it() -> None:
    state = a_state(a_job("j", gpu_mem_mib=100_000), nodes=[a_node(gpus=[a_gpu(mem_mib=80_000)])])
    kind, job = changed(state)
    assert (kind, job.request.gpu_mem_mib) == (ChangeKind.GPU_MEMORY, 80_000)


def test_fewer_workers_rather_than_fewer_gpus_of_each() -> None:
    state = a_state(
        a_job("a"), a_job("j", gpus=4, workers=2), nodes=[a_node("n0", 2), a_node("n1", 2)]
    )
    start(state, "a", 0, node="n0")
    kind, job = changed(state)
    assert kind is ChangeKind.WORKERS
    assert (job.request.workers, job.request.gpu_millis) == (1, 2000)


def test_within_a_quota() -> None:
    state = a_state(a_job("a"), a_job("j", gpus=4), tenants=[a_tenant(gpus=3)])
    start(state, "a", 0)
    kind, job = changed(state)
    assert (kind, job.request.gpu_millis) == (ChangeKind.GPUS, 2000)


def test_none_is_offered_where_no_change_would_do() -> None:
    state = a_state(a_job("a"), a_job("j"), nodes=[a_node(gpus=1)])
    start(state, "a", 0)
    assert help_for(state) is None


def test_none_is_offered_for_a_job_on_hold() -> None:
    state = a_state(a_job("j"))
    hold(state, "j")
    assert help_for(state) is None


def test_who_would_start_with_fewer_but_is_behind_others_is_not_told_so() -> None:
    """Submitted anew it is the last in the line: those before it take what is left."""
    state = a_state(
        a_job("j", gpus=4), a_job("other", submitted_at=0, gpus=2), nodes=[a_node(gpus=2)]
    )
    assert help_for(state) is None


@pytest.mark.parametrize(
    ("count", "smaller"), [(1, []), (2, [1]), (4, [3, 2, 1]), (16, [15, 14, 13, 12, 6, 3, 1])]
)
def test_smaller_counts_are_the_next_ones_and_then_halves(count: int, smaller: list[int]) -> None:
    assert smaller_counts(count) == smaller


@pytest.mark.parametrize(
    ("span", "limit"), [(500, 450), (20_500, 18_000), (3_600_000, 3_240_000), (700_000, 600_000)]
)
def test_a_limit_leaves_time_to_act_and_is_a_round_number(span: int, limit: int) -> None:
    assert short_of(span) == limit
