"""`place` finds a placement exactly when there is one."""

from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders import a_job, a_state, a_tenant, submit
from tests.property.placement_oracle import fewest_nodes, types_to_try
from tests.property.world import TENANTS, TYPES, a_lived_in_world
from tgpu.core.check import check_plan
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job, class_of
from tgpu.core.model.plan import Plan, Start
from tgpu.core.model.units import GPU
from tgpu.core.placement.place import place
from tgpu.core.state.cluster_state import State


def can_place_naively(state: State, job: Job) -> bool:
    """Try every set of GPUs for every worker."""
    types = types_to_try(state, job)
    return any(fewest_nodes(state, job, gpu_type) is not None for gpu_type in types)


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
