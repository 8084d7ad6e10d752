"""What could never start is refused, with the field and what would do."""

import pytest

from tests.builders import a_gpu, a_job, a_node, a_state, a_tenant, start, submit
from tgpu.core.errors import InvalidRequest, QuotaExceeded
from tgpu.core.model.job import Job, class_of
from tgpu.core.model.node import Node
from tgpu.core.model.tenant import Tenant
from tgpu.core.state.cluster_state import State
from tgpu.service.commands.feasibility import refuse_what_never_fits

FOUR_A100_TWO_H100 = a_node(
    gpus=[*(a_gpu(n) for n in range(4)), *(a_gpu(n, "H100", mem_mib=90_000) for n in (4, 5))],
    cpus=16,
    mem_mib=1000,
)


def a_world(tenant: Tenant | None = None, node: Node = FOUR_A100_TWO_H100) -> State:
    return a_state(nodes=[node], tenants=[tenant or a_tenant()])


def refusal(state: State, job: Job) -> str:
    with pytest.raises(InvalidRequest) as caught:
        refuse_what_never_fits(state, job, class_of(job))
    return caught.value.message


def accept(state: State, job: Job) -> None:
    refuse_what_never_fits(state, job, class_of(job))


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (
            a_job(gpus=5),
            "gpu_count: at most 4 GPUs of one type (4 A100, 2 H100) are on one machine (got '5')",
        ),
        (
            a_job(gpus=3, gpu_type="H100"),
            "gpu_count: at most 2 H100 GPUs are on one machine (got '3')",
        ),
        (
            a_job(gpu_type="B200"),
            "gpu_type: there is no such GPU here; there are: A100, H100 (got 'B200')",
        ),
        (a_job(cpus=17), "cpu_cores: the largest machine has 16 cores (got '17')"),
        (a_job(mem_mib=1001), "memory_mb: the largest machine has 1000 MiB (got '1001 MiB')"),
        (
            a_job(gpu_mem_mib=100_000),
            "gpu_memory_mb: that is 100000 MiB a GPU; no GPU here has it, and the largest has "
            "90000 MiB (got '100000 MiB')",
        ),
        (
            a_job(gpus=3, gpu_mem_mib=3 * 85_000),
            "gpu_memory_mb: that is 85000 MiB a GPU; 2 here have that much, and the largest has "
            "90000 MiB (got '255000 MiB')",
        ),
        (
            a_job(gpus=0.25, gpu_mem_mib=40_000),
            "gpu_memory_mb: a fraction of a GPU has that fraction of its memory, and the largest "
            "has 90000 MiB: ask for 0.45 GPU, or for less memory (got '40000 MiB')",
        ),
        (
            a_job(allowed_gpus=(7,)),
            "allowed_gpus: there is no GPU 7; there are 6: 0 to 5 (got '7')",
        ),
        (
            a_job(gpus=2, allowed_gpus=(0, 4)),
            "allowed_gpus: too few of these are suitable; there are 6: 0 to 5 (got '0,4')",
        ),
        (
            a_job(gpus=5, workers=5),
            "workers: all machines together hold 4 of one type (4 A100, 2 H100) (got 5)",
        ),
        (
            a_job(labels=(("rack", "r1"),)),
            "labels: no machine meets that; see `tgpu nodes` (got 'rack=r1')",
        ),
        (
            a_job(gpu_mem_each_mib=95_000),
            "gpu_memory_each_mb: no machine meets that; see `tgpu nodes` (got '95000')",
        ),
        (
            a_job(gpu_types=("B200", "T4")),
            "gpu_type: there is no such GPU here; there are: A100, H100 (got 'B200, T4')",
        ),
    ],
)
def test_what_no_machine_could_hold_is_refused(job: Job, sentence: str) -> None:
    assert refusal(a_world(), job) == sentence


@pytest.mark.parametrize(
    "job",
    [
        a_job(gpus=4),
        a_job(gpus=2, gpu_type="H100"),
        a_job(gpus=0.5),
        a_job(cpus=16, mem_mib=1000),
        a_job(gpus=2, gpu_mem_mib=180_000),
        a_job(gpus=2, allowed_gpus=(0, 1)),
        a_job(gpus=4, workers=4, exclusive=True),
    ],
)
def test_what_fits_an_empty_machine_is_taken_also_while_it_is_full(job: Job) -> None:
    state = a_world()
    submit(state, a_job("full", gpus=4))
    start(state, "full", 0, 1, 2, 3)
    accept(state, job)


def test_without_a_machine_nothing_is_known_and_nothing_refused() -> None:
    accept(a_state(nodes=[]), a_job(gpus=64))


@pytest.mark.parametrize(
    ("tenant", "job", "sentence"),
    [
        (a_tenant(gpus=2), a_job(gpus=3), "GPUs requested=3, quota=2, current=0"),
        (
            a_tenant(by_type={"A100": 2}),
            a_job(gpus=3, gpu_type="A100"),
            "A100 GPUs requested=3, quota=2, current=0",
        ),
        (
            a_tenant(by_type={"A100": 2, "H100": 1}),
            a_job(gpus=2.5),
            "A100 GPUs requested=2.5, quota=2, current=0",
        ),
        (
            a_tenant(max_gpu_mem_mib=10),
            a_job(gpu_mem_mib=11),
            "GPU memory MB requested=11, quota=10, current=0",
        ),
        (
            a_tenant(max_cpu_millis=1500),
            a_job(cpus=2),
            "CPU cores requested=2, quota=1.5, current=0",
        ),
        (a_tenant(max_mem_mib=5), a_job(mem_mib=6), "memory MB requested=6, quota=5, current=0"),
        (a_tenant(max_running_jobs=0), a_job(), "concurrent jobs requested=1, quota=0, current=0"),
    ],
)
def test_what_the_quota_never_allows_is_refused(tenant: Tenant, job: Job, sentence: str) -> None:
    with pytest.raises(QuotaExceeded) as caught:
        accept(a_world(tenant), job)
    assert caught.value.message == f"quota exceeded for tenant default: {sentence}"


def test_the_current_use_is_part_of_the_sentence() -> None:
    state = a_world(a_tenant(gpus=4))
    submit(state, a_job("runs", gpus=2))
    start(state, "runs", 0, 1)
    assert refusal(state, a_job(gpus=5)) == (
        "quota exceeded for tenant default: GPUs requested=5, quota=4, current=2"
    )


def test_a_quota_that_is_merely_used_up_refuses_nothing() -> None:
    state = a_world(a_tenant(gpus=2))
    submit(state, a_job("runs", gpus=2))
    start(state, "runs", 0, 1)
    accept(state, a_job(gpus=2))


def test_an_open_request_is_taken_if_the_quota_of_one_type_allows_it() -> None:
    accept(a_world(a_tenant(by_type={"A100": 1})), a_job(gpus=2))
    accept(a_world(a_tenant(by_type={"A100": 3, "H100": 0})), a_job(gpus=3))


def test_more_than_the_quota_is_taken_where_the_cohort_could_lend_it() -> None:
    tenants = [a_tenant("red", 1, cohort="lab"), a_tenant("blue", 2, cohort="lab")]
    state = a_state(nodes=[FOUR_A100_TWO_H100], tenants=tenants)
    accept(state, a_job(tenant="red", gpus=3))
    job = a_job(tenant="red", gpus=4)
    with pytest.raises(QuotaExceeded, match="requested=4, quota=3"):
        refuse_what_never_fits(state, job, class_of(job))


def test_more_than_a_tenant_may_borrow_is_refused() -> None:
    red = a_tenant("red", 1, cohort="lab", borrow_millis=1000)
    tenants = [red, a_tenant("blue", 2, cohort="lab")]
    state = a_state(nodes=[FOUR_A100_TWO_H100], tenants=tenants)
    accept(state, a_job(tenant="red", gpus=2))
    job = a_job(tenant="red", gpus=3)
    with pytest.raises(QuotaExceeded, match="requested=3, quota=2"):
        refuse_what_never_fits(state, job, class_of(job))
