"""Rounds: all GPUs are given out anew by count, and only when a round begins."""

from typing import Any

import pytest

from tests.builders import a_job, a_node, a_state, run, start, started, submit
from tgpu.core.model.events import TimePassed
from tgpu.core.model.plan import Plan
from tgpu.core.model.rules import PreemptionRules, Rules
from tgpu.core.policies.fifo import Fifo
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.core.state.cluster_state import State
from tgpu.simulate.run import Setting
from tgpu.simulate.time_slicing import schedule_round
from tgpu.simulate.tiresias import Tiresias

MINUTE = 60_000
PREEMPTING = Rules(preemption=PreemptionRules())


def plan_of(state: State, now: int, rules: Rules = PREEMPTING) -> Plan:
    state.apply(TimePassed(now))
    return schedule_round(state, now, Tiresias(), rules)


def preempted(plan: Plan) -> list[str]:
    return [preemption.victim for preemption in plan.preemptions]


def a_full_node(**fields: Any) -> State:
    state = a_state(a_job("a", gpus=8, **fields))
    start(state, "a", *range(8))
    run(state, "a")
    return state


def test_who_comes_between_two_rounds_waits_for_the_next() -> None:
    state = a_state(now=MINUTE)
    submit(state, a_job("a", submitted_at=MINUTE + 1))
    assert started(plan_of(state, MINUTE + 1)) == []
    assert started(plan_of(state, 2 * MINUTE - 1)) == []
    assert started(plan_of(state, 2 * MINUTE)) == ["a"]


def test_who_goes_to_the_second_queue_is_preempted_by_who_waits_in_the_first() -> None:
    state = a_full_node()
    submit(state, a_job("b", gpus=8, submitted_at=1))
    assert preempted(plan_of(state, 37 * MINUTE)) == []  # 17,760 GPU seconds
    assert preempted(plan_of(state, 38 * MINUTE)) == ["a"]


def test_inside_a_queue_who_came_first_keeps_its_gpus() -> None:
    state = a_full_node(submitted_at=0)
    submit(state, a_job("b", gpus=8, submitted_at=1))
    assert not plan_of(state, MINUTE)


def test_gpus_are_given_out_by_count_and_those_left_over_are_preempted() -> None:
    nodes = [a_node("n0", 4), a_node("n1", 4)]
    state = a_state(a_job("old", gpus=3), a_job("older", gpus=3), nodes=nodes)
    for job_id, node in (("old", "n0"), ("older", "n1")):
        start(state, job_id, 0, 1, 2, node=node)
        run(state, job_id)
    submit(state, a_job("new", gpus=2, submitted_at=5000 * 1000))
    # There are two GPUs left, on two nodes: by count that is enough, and nobody goes.
    assert not plan_of(state, 7000 * MINUTE)
    submit(state, a_job("another", gpus=1, submitted_at=5000 * 1001))
    assert preempted(plan_of(state, 7001 * MINUTE)) == ["older"]


def test_nobody_goes_where_preemption_is_off() -> None:
    state = a_full_node()
    submit(state, a_job("b", gpus=8, submitted_at=1))
    assert not plan_of(state, 60 * MINUTE, Rules())


def test_who_may_not_be_preempted_keeps_its_gpus() -> None:
    state = a_full_node(preemptible=False)
    submit(state, a_job("b", gpus=8, submitted_at=1))
    assert not plan_of(state, 60 * MINUTE)


@pytest.mark.parametrize("tick_ms", [None, 30_000])
def test_a_simulation_that_would_miss_rounds_is_refused(tick_ms: int | None) -> None:
    with pytest.raises(ValueError, match="tick_ms must be 60000, the policy's, not"):
        Setting(SchedulingConfig(Fifo(), PREEMPTING), tick_ms=tick_ms, time_slicing=Tiresias())
