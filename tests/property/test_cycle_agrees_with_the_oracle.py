"""Whatever happens, the class-based cycle plans what the naive one plans, byte for byte."""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.builders import explain
from tests.property.oracle import naive_plan
from tests.property.world import AGING_SECONDS, STEPS, World
from tgpu.core.check import check_invariants, check_plan
from tgpu.core.model.reasons import ReasonCode
from tgpu.core.policies import QUEUE_NAMES

rngs = st.randoms(use_true_random=False)


class CycleMachine(RuleBasedStateMachine):
    policy: str

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Random(0), self.policy)

    @initialize(rng=rngs)
    def begin(self, rng: Random) -> None:
        self.world = World(rng, self.policy)

    @rule(rng=rngs)
    def submit(self, rng: Random) -> None:
        self.world.submit(rng)

    @rule(rng=rngs)
    def tick(self, rng: Random) -> None:
        self.world.tick(rng)

    @rule(rng=rngs)
    def run(self, rng: Random) -> None:
        self.world.run(rng)

    @rule(rng=rngs)
    def end(self, rng: Random) -> None:
        self.world.end(rng)

    @rule(rng=rngs)
    def requeue(self, rng: Random) -> None:
        self.world.requeue(rng)

    @rule(rng=rngs)
    def preempt(self, rng: Random) -> None:
        self.world.preempt(rng)

    @rule(rng=rngs)
    def hold_or_release(self, rng: Random) -> None:
        self.world.hold(rng)
        self.world.rerank(rng)
        self.world.edit(rng)

    @rule(rng=rngs)
    def cancel(self, rng: Random) -> None:
        self.world.cancel(rng)

    @rule(rng=rngs)
    def set_gpu(self, rng: Random) -> None:
        self.world.set_gpu(rng)

    @rule(rng=rngs)
    def set_tenant(self, rng: Random) -> None:
        self.world.set_tenant(rng)

    @rule(rng=rngs)
    def set_queue(self, rng: Random) -> None:
        self.world.set_queue(rng)

    @rule()
    def carry_out_a_cycle(self) -> None:
        world = self.world
        world.carry_out(world.plan())
        for queue in world.state.waiting.classes():
            entry = world.state.entry(queue.keys[0][1])
            assert entry is not None
            # Whoever could still start would have been started. After a cycle gave up leases or
            # unsatisfiable jobs, others may be eligible now: they are looked at in the next one.
            if explain(world.state, entry).code is ReasonCode.NEXT_CYCLE:
                assert entry.job.after, "only a dependency met by this very cycle explains it"

    @invariant()
    def indexes_agree_with_the_entries(self) -> None:
        check_invariants(self.world.state)

    @invariant()
    def plan_equals_the_naive_one(self) -> None:
        world = self.world
        plan = world.plan()
        expected = naive_plan(world.facts, world.now, self.policy, AGING_SECONDS * 1000)
        assert repr(plan) == repr(expected)
        check_plan(world.state, plan)


class PriorityMachine(CycleMachine):
    policy = "priority"


class FifoMachine(CycleMachine):
    policy = "fifo"


class FairShareMachine(CycleMachine):
    policy = "fairshare"


class ShortestMachine(CycleMachine):
    policy = "shortest"


_BOUNDS = settings(stateful_step_count=40, max_examples=150)

TestPriorityCycle = PriorityMachine.TestCase
TestPriorityCycle.settings = _BOUNDS
TestFifoCycle = FifoMachine.TestCase
TestFifoCycle.settings = _BOUNDS
TestFairShareCycle = FairShareMachine.TestCase
TestFairShareCycle.settings = _BOUNDS
TestShortestCycle = ShortestMachine.TestCase
TestShortestCycle.settings = _BOUNDS


@pytest.mark.parametrize("policy", QUEUE_NAMES)
@pytest.mark.parametrize("seed", range(8))
def test_long_histories_agree_with_the_oracle(seed: int, policy: str) -> None:
    """Queues here grow to some hundred jobs, which the machine above never reaches."""
    rng = Random(seed)
    world = World(rng, policy)
    for step in range(250):
        rng.choice(STEPS)(world, rng)
        if step % 5:
            continue
        plan = world.plan()
        assert repr(plan) == repr(naive_plan(world.facts, world.now, policy, AGING_SECONDS * 1000))
        world.carry_out(plan)
        check_invariants(world.state)
