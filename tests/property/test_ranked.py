"""Orders that rank those who run too: what never happens, one sentence a test."""

from collections import Counter
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.builders import a_job, a_node
from tgpu.core.check import check_invariants, check_plan
from tgpu.core.cycle import schedule
from tgpu.core.model import lifecycle
from tgpu.core.model.events import JobMoved, JobsSubmitted, NodeSet, TenantSet, TimePassed
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Job, Options, Request
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.plan import Plan
from tgpu.core.model.rules import PreemptionRules, Rules
from tgpu.core.model.tenant import Tenant
from tgpu.core.policies import order_policy
from tgpu.core.policies.attained import Adaptive, LeastAttained
from tgpu.core.policies.slots import OrderPolicy
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.core.state.cluster_state import Entry, State
from tgpu.simulate.restart import PUBLISHED
from tgpu.simulate.run import Setting, simulate
from tgpu.simulate.tiresias import Tiresias
from tgpu.simulate.world import Arrival, Cluster

BOUND_MS = 200_000
TENANT = TenantId("t")
RULES = Rules(preemption=PreemptionRules(keeps_work=True))
seeds = st.integers(0, 2**32)
ranked = st.sampled_from(
    (
        LeastAttained(BOUND_MS),
        Adaptive(BOUND_MS),
        Adaptive(BOUND_MS, trial_ms=20_000, patience=1),
    )
)


class RankedWorld:
    """A cluster without end: new jobs come in each step, and victims are gone a step later."""

    def __init__(self, rng: Random, policy: OrderPolicy, sizes: tuple[int, ...]) -> None:
        self.rng, self.policy, self.sizes = rng, policy, sizes
        self.now, self.count = 0, 0
        self.state = State()
        self.state.apply(TenantSet(0, Tenant(TENANT)))
        for number in range(2):
            gpus = tuple(Gpu(i, f"{number}-{i}", "A100", 80_000) for i in range(4))
            self.state.apply(NodeSet(0, Node(NodeId(f"n{number}"), gpus, 8000, 4000)))

    def step(self) -> Plan:
        self.now += self.rng.choice((1000, 5000, 30_000))
        self._let_them_go()
        self._end_some()
        self._submit()
        return self.cycle()

    def cycle(self) -> Plan:
        self.state.apply(TimePassed(self.now))
        plan = schedule(self.state, self.now, self.policy, rules=RULES)
        check_plan(self.state, plan)
        self._carry_out(plan)
        check_invariants(self.state)
        return plan

    def _submit(self) -> None:
        for _ in range(self.rng.randint(0, 3)):
            self.count += 1
            size = self.rng.choice(self.sizes)
            request = Request(size, workers=max(1, size // 4000))
            options = Options(preemptible=self.rng.random() < 0.95)
            job = Job(JobId(f"j{self.count:04}"), TENANT, 500, self.now, request, options=options)
            self.state.apply(JobsSubmitted(self.now, (job,)))

    def _end_some(self) -> None:
        for entry in self.state.placed():
            if self.rng.random() < 0.1 and entry.progress.gives_way_to is None:
                over = lifecycle.end(entry.job.job_id, entry.progress, JobState.COMPLETED, self.now)
                self._move(entry.job.job_id, Move.COMPLETE, over)

    def _let_them_go(self) -> None:
        for entry in self.state.placed():
            job_id, progress = entry.job.job_id, entry.progress
            if progress.gives_way_to is not None:
                gone = lifecycle.preempt(job_id, progress, self.now, entry.job.request.gpu_millis)
                self._move(job_id, Move.PREEMPT, gone)
                again = lifecycle.requeue(job_id, gone, self.now, "preempted", counts=False)
                self._move(job_id, Move.REQUEUE, again)

    def _carry_out(self, plan: Plan) -> None:
        for preemption in plan.preemptions:
            progress = self.entry(preemption.victim).progress
            asked = lifecycle.ask_preemption(preemption.victim, progress, preemption.to, "why")
            self._move(preemption.victim, Move.STOP, asked)
        for claim in plan.nominations:
            promised = lifecycle.nominate(
                claim.job_id, self.entry(claim.job_id).progress, claim.placement
            )
            self._move(claim.job_id, Move.NOMINATE, promised)
        for start in plan.starts:
            progress = self.entry(start.job_id).progress
            placed = lifecycle.place(start.job_id, progress, start.placement, self.now)
            self._move(start.job_id, Move.START, placed)
            running = lifecycle.run(start.job_id, placed, self.now, pid=1)
            self._move(start.job_id, Move.RUN, running)

    def entry(self, job_id: JobId) -> Entry:
        entry = self.state.entry(job_id)
        assert entry is not None
        return entry

    def _move(self, job_id: JobId, move: Move, progress: lifecycle.Progress) -> None:
        self.state.apply(JobMoved(self.now, job_id, move, progress))


@settings(max_examples=20)
@given(seed=seeds, policy=ranked)
def test_nobody_overdue_waits_while_somebody_runs_who_is_not(
    seed: int, policy: LeastAttained | Adaptive
) -> None:
    """The bound on passing over: beyond it, only others beyond it have the GPUs."""
    world = RankedWorld(Random(seed), policy, (1000,))
    for _ in range(40):
        world.step()
        while world.cycle():  # in each, others are preempted for one job of each class
            pass
        order = policy.at(world.state, world.now)
        waiting = [e for e in world.state.entries() if e.progress.state is JobState.PENDING]
        overdue = [
            e
            for e in waiting
            if world.now - e.job.submitted_at > BOUND_MS + 2 * e.progress.ran_ms
            and e.progress.claim is None
        ]
        event(f"overdue: {bool(overdue)}")
        for entry in overdue:
            for other in world.state.placed():
                may_go = other.job.options.preemptible and not other.progress.stopping
                assert not may_go or order.rank(other) <= order.rank(entry)


@settings(max_examples=20)
@given(seed=seeds)
def test_no_job_is_preempted_for_a_job_of_no_lower_rank(seed: int) -> None:
    policy = LeastAttained(BOUND_MS)
    world = RankedWorld(Random(seed), policy, (500, 1000, 1000, 2000, 4000, 8000))
    for _ in range(40):
        plan = world.step()
        order = policy.at(world.state, world.now)
        for preemption in plan.preemptions:
            victim, to = world.entry(preemption.victim), world.entry(preemption.to)
            assert order.rank(victim) > order.rank(to)


@settings(max_examples=20)
@given(seed=seeds, policy=ranked)
def test_a_job_is_preempted_for_one_job_only_and_that_gets_a_place(
    seed: int, policy: LeastAttained | Adaptive
) -> None:
    world = RankedWorld(Random(seed), policy, (500, 1000, 2000, 4000, 8000))
    for _ in range(40):
        plan = world.step()
        victims = [preemption.victim for preemption in plan.preemptions]
        assert len(victims) == len(set(victims))
        assert {p.to for p in plan.preemptions} <= {claim.job_id for claim in plan.nominations}


def a_trace(rng: Random) -> list[Arrival]:
    at, found = 0, []
    for number in range(40):
        at += rng.choice((0, 10, 60, 600)) * 1000
        size = rng.choice((1, 1, 2, 4, 8, 16))
        job = a_job(f"j{number:02}", gpus=size, workers=max(1, size // 8), submitted_at=at)
        found.append(Arrival(job, rng.choice((5, 60, 600, 6000, 60_000)) * 1000, ""))
    return found


@settings(max_examples=15)
@given(seed=seeds, policy=ranked)
def test_a_job_that_others_were_preempted_for_starts_at_once_and_no_two_take_turns(
    seed: int, policy: LeastAttained | Adaptive
) -> None:
    asked: dict[int, set[tuple[str, str]]] = {}
    begun: dict[int, set[str]] = {}
    pairs: Counter[tuple[str, str]] = Counter()

    def show(now: int, plan: Plan) -> None:
        for preemption in plan.preemptions:
            asked.setdefault(now, set()).add((preemption.victim, preemption.to))
            pairs[preemption.victim, preemption.to] += 1
        begun.setdefault(now, set()).update(start.job_id for start in plan.starts)

    cluster = Cluster({"": (a_node("n0"), a_node("n1"))})
    setting = Setting(SchedulingConfig(policy, RULES), restart=PUBLISHED, tick_ms=60_000)
    result = simulate(a_trace(Random(seed)), cluster, setting, show=show)
    assert result.unfinished == 0
    for now, some in asked.items():
        assert {to for _, to in some} <= begun[now]
        assert not any((to, victim) in some for victim, to in some)
    # Two change places at most once for each step that both can be on.
    assert max(pairs.values(), default=0) <= 25


@settings(max_examples=15)
@given(seed=seeds)
def test_under_tiresias_everybody_comes_to_an_end(seed: int) -> None:
    cluster = Cluster({"": (a_node("n0"), a_node("n1"))})
    setting = Setting(
        SchedulingConfig(order_policy("las"), RULES),
        restart=PUBLISHED,
        tick_ms=60_000,
        time_slicing=Tiresias(),
    )
    assert simulate(a_trace(Random(seed)), cluster, setting).unfinished == 0
