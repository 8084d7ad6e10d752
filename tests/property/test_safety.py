"""Safety: what never happens, one sentence a test."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import averages, snapshot
from tests.property.world import STEPS, TENANTS, World, a_lived_in_world
from tgpu.core.capacity.ledger import Trial
from tgpu.core.check import check_invariants, check_plan
from tgpu.core.cycle import schedule
from tgpu.core.model.events import JobsSubmitted, NodeSet, QueueSet, TenantSet
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import class_of
from tgpu.core.model.lifecycle import PLACED, JobState
from tgpu.core.model.node import Node
from tgpu.core.model.plan import Plan
from tgpu.core.model.units import GPU
from tgpu.core.placement.place import place
from tgpu.core.policies import POLICY_NAMES, order_policy
from tgpu.core.state.cluster_state import State, unmet_cause

ROOT = Path(__file__).parents[2]
seeds = st.integers(0, 2**32)


@given(seed=seeds)
def test_no_gpu_is_ever_oversubscribed(seed: int) -> None:
    rng = Random(seed)
    world = World(rng)
    for _ in range(40):
        rng.choice(STEPS)(world, rng)
        world.carry_out(world.plan())
        taken: dict[tuple[str, int], int] = {}
        for job_id in world.facts.ids(*PLACED):
            placement = world.facts.progress[job_id].placement
            assert placement is not None
            for part in placement.parts():
                for share in part.shares:
                    gpu = (part.node_id, share.gpu_index)
                    taken[gpu] = taken.get(gpu, 0) + share.millis
        assert all(millis <= GPU for millis in taken.values()), taken


@given(seed=seeds)
def test_no_start_ever_puts_a_tenant_over_quota(seed: int) -> None:
    rng = Random(seed)
    world = World(rng)
    for _ in range(40):
        rng.choice(STEPS)(world, rng)
        plan = world.plan()
        check_plan(world.state, plan)
        world.carry_out(plan)


def test_the_same_facts_give_the_same_plans_under_two_hash_seeds() -> None:
    digests = {_digest_under(hash_seed) for hash_seed in ("1", "4242")}
    assert len(digests) == 1


def _digest_under(hash_seed: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.property.world", "20240229"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert len(finished.stdout) == 64
    return finished.stdout


@given(seed=seeds, order=st.randoms(use_true_random=False))
def test_the_order_of_input_does_not_change_the_plan(seed: int, order: Random) -> None:
    rng = Random(seed)
    world = World(rng)
    jobs = [world.a_job(rng, JobId(f"j{number}"), []) for number in range(30)]
    nodes = list(world.facts.nodes.values())
    tenants = [world.facts.tenants[tenant_id] for tenant_id in TENANTS]

    def plan_of(jobs: list, nodes: list, tenants: list) -> Plan:
        state = State()
        for tenant in tenants:
            state.apply(TenantSet(0, tenant))
        for node in nodes:
            gpus = tuple(order.sample(node.gpus, len(node.gpus)))
            state.apply(NodeSet(0, Node(node.node_id, gpus, node.cpu_millis, node.mem_mib)))
        state.apply(JobsSubmitted(0, tuple(jobs)))
        return schedule(state, world.now, world.policy)

    def shuffled(things: list) -> list:
        return order.sample(things, len(things))

    expected = plan_of(jobs, nodes, tenants)
    assert plan_of(shuffled(jobs), shuffled(nodes), shuffled(tenants)) == expected


@given(seed=seeds, policy=st.sampled_from(POLICY_NAMES))
def test_a_cycle_changes_nothing(seed: int, policy: str) -> None:
    world = a_lived_in_world(Random(seed))
    world.submit(Random(seed))
    before = snapshot(world.state)
    first = schedule(world.state, world.now, order_policy(policy, 1))
    assert snapshot(world.state) == before
    assert schedule(world.state, world.now, order_policy(policy, 1)) == first


@given(seed=seeds)
def test_a_trial_leaves_the_ledger_as_it_was(seed: int) -> None:
    rng = Random(seed)
    world = a_lived_in_world(rng)
    before = snapshot(world.state)
    with Trial(world.state.ledger) as trial:
        for entry in world.state.placed():
            assert entry.progress.placement is not None
            trial.give(entry.job, entry.progress.placement)
        for number in range(10):
            job = world.a_job(rng, JobId(f"probe{number}"), [])
            placement = place(trial.ledger, class_of(job))
            if placement is not None:
                trial.take(job, placement)
    assert snapshot(world.state) == before


@given(seed=seeds)
def test_take_and_give_are_inverses(seed: int) -> None:
    rng = Random(seed)
    world = a_lived_in_world(rng)
    before = snapshot(world.state)
    ledger = world.state.ledger
    taken = []
    for number in range(10):
        job = world.a_job(rng, JobId(f"probe{number}"), [])
        placement = place(ledger, class_of(job))
        if placement is not None:
            ledger.take(job, placement)
            taken.append((job, placement))
    for job, placement in rng.sample(taken, len(taken)):
        ledger.give(job, placement)
    assert snapshot(world.state) == before


@given(seed=seeds)
@settings(max_examples=100)
def test_a_state_restored_at_start_is_the_one_that_lived_through_the_events(seed: int) -> None:
    world = a_lived_in_world(Random(seed))
    world.submit(Random(seed))
    restored = _restore(world)
    check_invariants(restored)
    assert snapshot(restored) == snapshot(world.state)


def _restore(world: World) -> State:
    """What a service does at start: tenants, nodes and the clock, then the jobs as submitted."""
    facts, state = world.facts, State()
    for tenant in facts.tenants.values():
        state.apply(TenantSet(0, tenant))
    for queue in facts.queues.values():
        state.apply(QueueSet(0, queue))
    for node in facts.nodes.values():
        state.apply(NodeSet(0, node))
    state.now = world.state.now
    for job_id, job in facts.jobs.items():
        if job_id in facts.ended:
            continue
        needed = [d.job_id for d in job.after if d.kind == "ok"]
        failed = [
            other
            for other in facts.ended
            if other in needed and facts.progress[other].state is not JobState.COMPLETED
        ]
        unmet = unmet_cause(failed[0], facts.progress[failed[0]].state) if failed else None
        state.restore(job, facts.progress[job_id], unmet)
    state.restore_meters(averages(world.state), state.now)
    return state
