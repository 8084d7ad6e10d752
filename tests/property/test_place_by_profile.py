"""By a learnt mix too, `place` finds a place exactly when there is one, and none is better.

What is lost is counted here from the plain facts, wish by wish and GPU by GPU.
"""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import end_anyhow, start, submit
from tests.property.placement_oracle import (
    Free,
    Lay,
    Rank,
    lays,
    may_have,
    types_to_try,
    workers_on,
)
from tests.property.test_place_is_the_best import TYPES, a_random_job, a_random_state
from tgpu.core.capacity.ledger import NodeUse
from tgpu.core.check import check_plan
from tgpu.core.model.job import Job, Where, class_of
from tgpu.core.model.node import Placement
from tgpu.core.model.plan import Plan, Start
from tgpu.core.model.request_profile import CPU_STEP, LOSS_STEP, RequestProfile, RequestShape
from tgpu.core.model.units import GPU
from tgpu.core.placement.place import place
from tgpu.core.placement.place_by_profile import goes_by_profile
from tgpu.core.state.cluster_state import State

seeds = st.integers(0, 2**32)


def a_random_mix(rng: Random) -> RequestProfile:
    wishes = {
        RequestShape(
            rng.choice((0, 250, 500, 700, 1000, 1000, 1500, 2000, 4000)),
            rng.choice((0, 0, 1_000, 6_000, 20_000)),
            rng.choice(((), (), TYPES, TYPES[:1])),
        ): rng.randint(1, 3000)
        for _ in range(rng.randint(1, 6))
    }
    return RequestProfile(tuple(wishes.items()))


def a_simple_job(rng: Random, job_id: str) -> Job:
    """One that a mix decides about."""
    job = a_random_job(rng, job_id)
    millis = job.request.gpu_millis // job.request.workers
    listed = rng.choice(((), (), ("H100", "A100"), ("T4", "A100")))
    cpu, mem = rng.choice((0, 1_000, 5_000)), rng.choice((0, 0, 3_000))
    wants = replace(
        job.request,
        gpu_millis=millis,
        workers=1,
        gpu_mem_mib=0,
        cpu_millis=cpu,
        mem_mib=mem,
        where=Where(gpu_types=listed),
    )
    return replace(job, request=wants)


def lost(mix: RequestProfile, gpu_type: str, free: list[int], level: int) -> int:
    total, cpu, found = sum(free), level * CPU_STEP, 0
    for wish, weight in mix.wishes:
        asked = wish.gpu_millis
        may = bool(asked) and (not wish.gpu_types or gpu_type in wish.gpu_types)
        if not may or wish.cpu_millis > cpu:
            usable = 0
        elif asked < GPU:
            usable = sum(millis for millis in free if millis >= asked)
        else:
            empty = GPU * sum(millis == GPU for millis in free)
            usable = empty if empty >= asked else 0
        found += 20 * weight * (total - usable)
        if may:
            fed = cpu * asked // wish.cpu_millis if wish.cpu_millis else total
            found -= 3 * weight * min(total, fed)
    return found


def rank_of(
    mix: RequestProfile, use: NodeUse, job: Job, gpu_type: str, lay: Lay
) -> tuple[Rank, Rank]:
    """Of one way to lay it: against others on the node, and against those on other nodes."""
    gpus = may_have(use, job, gpu_type)
    free: Free = {gpu.index: GPU - use.gpu_millis.get(gpu.index, 0) for gpu in gpus}
    taken = {gpu.index: millis for gpu, millis in lay}
    before = [free[gpu.index] for gpu in gpus]
    after = [free[gpu.index] - taken.get(gpu.index, 0) for gpu in gpus]
    level = max(0, use.node.cpu_millis - use.cpu_millis) // CPU_STEP
    left = max(0, level - -(-job.request.cpu_millis // CPU_STEP))
    grown = lost(mix, gpu_type, after, left) - lost(mix, gpu_type, before, level)
    islands = {(gpu.nvlink_group, gpu.nvlink_group is None and gpu.index) for gpu, _ in lay}
    opened = [gpu for gpu, _ in lay if free[gpu.index] == GPU]
    still = [gpu for gpu in gpus if free[gpu.index] == GPU and gpu not in opened]
    broken = {gpu.nvlink_group for gpu in opened} - {None}
    partial = [free[gpu.index] for gpu, millis in lay if millis < GPU]
    first = (len(islands), len({gpu.numa_node for gpu, _ in lay}))
    last = (
        partial[0] if partial else 0,
        sum(gpu.nvlink_group in broken for gpu in still),
        sum(gpu.numa_node in {one.numa_node for one in opened} for gpu in still),
        sum(int(gpu.heat) for gpu, _ in lay),
    )
    return (*first, grown, *last), (*first, grown // LOSS_STEP, sum(before), left, *last)


def best_on(mix: RequestProfile, use: NodeUse, job: Job, gpu_type: str) -> Rank | None:
    if not workers_on(use, job, gpu_type):
        return None
    gpus = may_have(use, job, gpu_type)
    free = {gpu.index: GPU - use.gpu_millis.get(gpu.index, 0) for gpu in gpus}
    return min(rank_of(mix, use, job, gpu_type, lay) for lay in lays(gpus, free, job))[1]


def rank_of_placement(mix: RequestProfile, state: State, job: Job, placement: Placement) -> Rank:
    use = state.ledger.node(placement.node_id)
    gpus = {gpu.index: gpu for gpu in use.node.gpus}
    lay = tuple((gpus[share.gpu_index], share.millis) for share in placement.shares)
    return rank_of(mix, use, job, placement.gpu_type, lay)[1]


@given(seed=seeds)
@settings(max_examples=200)
def test_no_place_is_better_by_the_mix(seed: int) -> None:
    rng = Random(seed)
    state = a_random_state(rng)
    mix = state.ledger.request_profile = a_random_mix(rng)
    for number in range(8):
        job = a_simple_job(rng, f"probe{number}")
        assert goes_by_profile(job.request)
        types = types_to_try(state, job)
        ranked = [
            (rank, node_id, gpu_type)
            for gpu_type in types
            for node_id, use in state.ledger.nodes.items()
            if (rank := best_on(mix, use, job, gpu_type)) is not None
        ]
        found = place(state.ledger, class_of(job))
        assert (found is not None) == bool(ranked), job
        if found is None:
            continue
        if job.request.where.gpu_types:
            able = [gpu_type for gpu_type in types if any(one[2] == gpu_type for one in ranked)]
            ranked = [one for one in ranked if one[2] == able[0]]
        rank = rank_of_placement(mix, state, job, found)
        assert (rank, found.node_id, found.gpu_type) == min(ranked), job
        submit(state, job)
        check_plan(state, Plan((Start(job.job_id, found),)))
        start(state, job.job_id, placement=found)
        if rng.random() < 0.3:
            running = sorted(entry.job.job_id for entry in state.placed())
            end_anyhow(state, rng.choice(running))


@given(seed=seeds)
@settings(max_examples=100)
def test_what_others_keep_free_is_not_taken(seed: int) -> None:
    rng = Random(seed)
    state = a_random_state(rng)
    state.ledger.request_profile = a_random_mix(rng)
    kept = rng.choice(sorted(state.ledger.nodes))

    def view(use: NodeUse) -> NodeUse:
        if use.node.node_id != kept:
            return use
        seen = use.copy()
        seen.gpu_millis |= {gpu.index: GPU for gpu in use.node.gpus if gpu.index}
        return seen

    for number in range(6):
        job = a_simple_job(rng, f"probe{number}")
        found = place(state.ledger, class_of(job), view)
        seen = {node_id: view(use) for node_id, use in state.ledger.nodes.items()}
        types = types_to_try(state, job)
        able = [use for use in seen.values() if any(workers_on(use, job, t) for t in types)]
        assert (found is not None) == bool(able), job
        if found is not None and found.node_id == kept:
            assert {share.gpu_index for share in found.shares} == {0}


@given(seed=seeds)
@settings(max_examples=50)
def test_a_mix_that_comes_late_is_as_one_that_was_always_there(seed: int) -> None:
    rng = Random(seed)
    state = a_random_state(rng)
    mix = a_random_mix(rng)
    job = a_simple_job(rng, "probe")
    place(state.ledger, class_of(job))  # by the usual mix: the index is there
    state.ledger.request_profile = mix
    first = place(state.ledger, class_of(job))
    state.ledger.request_profile = RequestProfile(tuple(mix.wishes))
    assert place(state.ledger, class_of(job)) == first
