"""Whatever waits: with true run times and nobody new, what is foreseen is what happens."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_job, a_node, a_state, a_tenant, waiting_ids
from tgpu.core.check import check_invariants
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.rules import BackfillMode, PreemptionRules, Rules
from tgpu.core.policies import order_policy
from tgpu.core.projection.queue_projection import Projection, RunLength, Runs, project
from tgpu.core.projection.snapshot import picture, state_of
from tgpu.core.scheduling_config import CycleContext, SchedulingConfig
from tgpu.core.state.cluster_state import State
from tgpu.simulate.run import Setting, simulate
from tgpu.simulate.world import Arrival, Cluster

NODES = tuple(a_node(f"n{number}", 4) for number in range(3))
TENANTS = (a_tenant("blue"), a_tenant("red"))
SHAPES = ((0.5, 1), (1.0, 1), (2.0, 1), (4.0, 1), (6.0, 3), (8.0, 2), (12.0, 3))
FAR = 10_000


@st.composite
def queues(draw: st.DrawFn) -> list[Arrival]:
    found = []
    for number in range(draw(st.integers(1, 25))):
        gpus, workers = draw(st.sampled_from(SHAPES))
        job = a_job(
            f"j{number:02}",
            draw(st.sampled_from(("red", "blue"))),
            gpus=gpus,
            workers=workers,
            priority=draw(st.sampled_from((100, 500, 900))),
            time_limit_ms=draw(st.sampled_from((None, None, 5, 50))),
        )
        found.append(Arrival(job, draw(st.integers(1, 40))))
    return found


@st.composite
def ways(draw: st.DrawFn) -> CycleContext:
    backfill = draw(st.sampled_from(BackfillMode))
    may_preempt = backfill is not BackfillMode.CONSERVATIVE and draw(st.booleans())
    rules = Rules(backfill, preemption=PreemptionRules() if may_preempt else None)
    name = draw(st.sampled_from(("fifo", "priority", "fairshare", "shortest")))
    return CycleContext(SchedulingConfig(order_policy(name), rules))


def true_runs(queue: list[Arrival]) -> Runs:
    times = {arrival.job.job_id: arrival.run_ms for arrival in queue}

    def runs(job: Job, elapsed_ms: int) -> RunLength:
        return RunLength(times[job.job_id])

    return runs


def a_queue_of(queue: list[Arrival]) -> State:
    return a_state(*(arrival.job for arrival in queue), nodes=NODES, tenants=TENANTS)


def starts_of(state: State, now: int, context: CycleContext, runs: Runs) -> Mapping[JobId, int]:
    taken = picture(state, now, context.config.policy, {}, FAR)
    return project(state_of(taken), now, context, runs, FAR).starts


@given(queues(), ways())
def test_what_is_foreseen_is_what_the_simulator_does(
    queue: list[Arrival], context: CycleContext
) -> None:
    setting = Setting(context.config, settles=True)
    happened = simulate(queue, Cluster({"": NODES}, TENANTS), setting)
    foreseen = starts_of(a_queue_of(queue), 0, context, true_runs(queue))
    assert foreseen == {
        one.arrival.job.job_id: one.started_at
        for one in happened.outcomes
        if one.started_at is not None
    }


@given(queues(), ways(), st.integers(1, 12))
def test_what_is_foreseen_stays_true_as_time_goes_on(
    queue: list[Arrival], context: CycleContext, steps: int
) -> None:
    state, runs = a_queue_of(queue), true_runs(queue)
    foreseen = starts_of(state, 0, context, runs)
    world = Projection(state, 0, context, runs)
    while not world.is_over and world.steps < steps:
        world.step()
    waiting = [job_id for job_id in foreseen if job_id not in world.starts]
    kept = CycleContext(context.config, world.promises)
    now = starts_of(state, world.reached, kept, runs)
    assert [now[job_id] for job_id in waiting] == [foreseen[job_id] for job_id in waiting]


@given(queues(), ways(), st.integers(0, 8))
def test_a_snapshot_is_decided_as_the_state_is_and_leaves_it_alone(
    queue: list[Arrival], context: CycleContext, steps: int
) -> None:
    state, runs = a_queue_of(queue), true_runs(queue)
    world = Projection(state, 0, context, runs)
    for _ in range(steps):
        world.step()
    before = waiting_ids(state)
    taken = picture(state, state.now, context.config.policy, {}, FAR)
    assert taken.is_whole
    copy = state_of(taken)
    plans = [context.config.decide(one, state.now) for one in (state, copy)]
    assert plans[0] == plans[1]
    project(copy, state.now, context, runs, FAR)
    assert waiting_ids(state) == before
    check_invariants(state)


@given(queues(), ways(), st.integers(1, 5))
def test_those_taken_along_are_the_next_in_line(
    queue: list[Arrival], context: CycleContext, most: int
) -> None:
    """With nobody passing, the first so many start as if the others were not there."""
    strict = CycleContext(SchedulingConfig(context.config.policy, Rules(BackfillMode.STRICT)))
    state, runs = a_queue_of(queue), true_runs(queue)
    whole = starts_of(state, 0, strict, runs)
    taken = picture(state, 0, strict.config.policy, {}, most)
    assert taken.is_whole == (len(queue) <= most)
    assert len(taken.jobs) == min(most, len(queue))
    if context.config.policy.name == "fairshare":
        return  # who is next there changes with every start
    part = project(state_of(taken), 0, strict, runs, FAR).starts
    assert part == {job_id: whole[job_id] for job_id in part}
