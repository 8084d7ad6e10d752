"""`place` finds a placement exactly when there is one."""

from itertools import combinations
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_scheduler.core.check import check_plan
from gpu_scheduler.core.heat import Heat
from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import Job, class_of
from gpu_scheduler.core.node import Gpu
from gpu_scheduler.core.plan import Plan, Start
from gpu_scheduler.core.stages.place import place
from gpu_scheduler.core.state import State
from gpu_scheduler.core.units import GPU
from tests.builders import a_job, a_state, a_tenant, submit
from tests.property.world import TENANTS, TYPES, a_lived_in_world


def can_place_naively(state: State, job: Job) -> bool:
    """Try every set of GPUs on every node, and every member of it for the part of a GPU."""
    request, allowed = job.request, job.request.where.gpus
    use_of_tenant = state.ledger.tenant(job.tenant_id)
    whole, rest = divmod(request.gpu_millis, GPU)
    count = whole + bool(rest)
    for use in state.ledger.nodes.values():
        cpu_left = use.node.cpu_millis - use.cpu_millis
        mem_left = use.node.mem_mib - use.mem_mib
        if (request.cpu_millis and request.cpu_millis > cpu_left) or (
            request.mem_mib and request.mem_mib > mem_left
        ):
            continue

        def holds(gpu: Gpu, millis: int, taken: dict[int, int] = use.gpu_millis) -> bool:
            may = gpu.problem is None and gpu.paused is None and gpu.heat is not Heat.HOT
            may = may and (not allowed or gpu.index in allowed)
            may = may and request.gpu_type in (None, gpu.gpu_type)
            # The share of the memory that goes with the share of the GPU must be enough.
            may = may and gpu.mem_mib * request.gpu_millis >= request.gpu_mem_mib * GPU
            return may and millis + taken.get(gpu.index, 0) <= GPU

        for gpus in combinations(use.node.gpus, count):
            types = {gpu.gpu_type for gpu in gpus}
            if len(types) != 1:
                continue
            (gpu_type,) = types
            limit = use_of_tenant.tenant.max_of_type(gpu_type)
            used = use_of_tenant.gpu_millis_by_type.get(gpu_type, 0)
            enforced = use_of_tenant.tenant.enforce_quota
            if enforced and limit is not None and used + request.gpu_millis > limit:
                continue
            for part in gpus:
                shares = [rest if gpu is part and rest else GPU for gpu in gpus]
                if all(holds(gpu, share) for gpu, share in zip(gpus, shares, strict=True)):
                    return True
    return False


@given(st.integers(0, 2**32))
@example(1)
@settings(max_examples=150)
def test_place_finds_a_placement_exactly_when_one_exists(seed: int) -> None:
    rng = Random(seed)
    world = a_lived_in_world(rng, steps=25)
    for number in range(10):
        job = world.a_job(rng, JobId(f"probe{number}"), [])
        found = place(world.state.ledger, class_of(job))
        assert (found is not None) == can_place_naively(world.state, job), job


@given(st.integers(0, 2**32))
def test_what_place_finds_fits(seed: int) -> None:
    rng = Random(seed)
    world = a_lived_in_world(rng, steps=25)
    for tenant_id in TENANTS:  # `place` minds only quotas by type, so no other may be in the way
        by_type = world.facts.tenants[tenant_id].max_gpu_millis_by_type
        limits = {name: millis / GPU for name, millis in by_type}
        world.state.ledger.set_tenant(a_tenant(tenant_id, by_type=limits))
    for number in range(10):
        job = a_job(
            f"probe{number}",
            rng.choice(TENANTS),
            rng.choice((0.1, 0.5, 1, 1.5, 2, 3)),
            rng.choice((None, *TYPES)),
            cpus=rng.choice((0, 1)),
            queue="probes",
        )
        submit(world.state, job)
        found = place(world.state.ledger, class_of(job))
        if found is not None:
            check_plan(world.state, Plan((Start(job.job_id, found),)))


def test_the_exhaustive_search_says_no_where_there_is_nothing() -> None:
    assert not can_place_naively(a_state(nodes=[]), a_job())
