"""Tiresias: once a minute all GPUs are given out by count, by two queues."""

from typing import Any

from tests.builders import a_job, a_node, a_state, entry_of, move, run, start, started, submit
from tgpu.core import lifecycle
from tgpu.core.cycle import schedule
from tgpu.core.events import TimePassed
from tgpu.core.ids import JobId
from tgpu.core.lifecycle import Move
from tgpu.core.plan import Plan
from tgpu.core.policies.tiresias import Tiresias
from tgpu.core.rules import PreemptionRules, Rules
from tgpu.core.state import State

MINUTE = 60_000
GIVING_WAY = Rules(preemption=PreemptionRules())


def plan_of(state: State, now: int, rules: Rules = GIVING_WAY) -> Plan:
    state.apply(TimePassed(now))
    return schedule(state, now, Tiresias(), rules=rules)


def asked(plan: Plan) -> list[str]:
    return [preemption.victim for preemption in plan.preemptions]


def a_full_node(since: int = 0, **fields: Any) -> State:
    state = a_state(a_job("a", gpus=8, **fields), now=since)
    start(state, "a", *range(8), at=since)
    run(state, "a", at=since)
    return state


def test_who_comes_between_two_rounds_waits_for_the_next() -> None:
    state = a_state(now=MINUTE)
    submit(state, a_job("a", submitted_at=MINUTE + 1))
    assert started(plan_of(state, MINUTE + 1)) == []
    assert started(plan_of(state, 2 * MINUTE - 1)) == []
    assert started(plan_of(state, 2 * MINUTE)) == ["a"]


def test_a_round_that_was_missed_is_made_up_for() -> None:
    state = a_state(a_job("a"), now=MINUTE)
    assert started(plan_of(state, 2 * MINUTE + 999)) == ["a"]


def test_the_first_queue_ends_after_18_000_gpu_seconds() -> None:
    state = a_full_node()
    submit(state, a_job("b", gpus=8, submitted_at=1))
    assert asked(plan_of(state, 37 * MINUTE)) == []  # 17,760 GPU seconds
    assert asked(plan_of(state, 38 * MINUTE)) == ["a"]


def test_inside_a_queue_who_came_first_keeps_its_gpus() -> None:
    state = a_full_node(submitted_at=0)
    submit(state, a_job("b", gpus=8, submitted_at=1))
    assert not plan_of(state, MINUTE)


def test_gpus_are_given_out_by_count_and_those_left_over_go() -> None:
    nodes = [a_node("n0", 4), a_node("n1", 4)]
    state = a_state(a_job("old", gpus=3), a_job("older", gpus=3), nodes=nodes)
    for job_id, node in (("old", "n0"), ("older", "n1")):
        start(state, job_id, 0, 1, 2, node=node)
        run(state, job_id)
    submit(state, a_job("new", gpus=2, submitted_at=5000 * 1000))
    # There are two GPUs left, on two nodes: by count that is enough, and nobody goes.
    assert not plan_of(state, 7000 * MINUTE)
    submit(state, a_job("another", gpus=1, submitted_at=5000 * 1001))
    assert asked(plan_of(state, 7001 * MINUTE)) == ["older"]


def test_nobody_goes_where_preemption_is_off() -> None:
    state = a_full_node()
    submit(state, a_job("b", gpus=8, submitted_at=1))
    assert not plan_of(state, 60 * MINUTE, Rules())


def test_who_may_not_be_asked_keeps_its_gpus() -> None:
    state = a_full_node(preemptible=False)
    submit(state, a_job("b", gpus=8, submitted_at=1))
    assert not plan_of(state, 60 * MINUTE)


def test_what_others_leave_behind_is_given_out_before_the_next_round() -> None:
    state = a_full_node()
    submit(state, a_job("b", gpus=8, submitted_at=1))
    now = 40 * MINUTE + 200
    assert asked(plan_of(state, now)) == ["a"]
    going = lifecycle.give_way(JobId("a"), entry_of(state, "a").progress, JobId("b"), "x")
    move(state, "a", Move.STOP, going, at=now)
    assert not plan_of(state, now + 1000)  # it is still there
    gone = lifecycle.preempt(JobId("a"), going, now + 5000, 8000)
    move(state, "a", Move.PREEMPT, gone, at=now + 5000)
    back = lifecycle.requeue(JobId("a"), gone, now + 5000, "x", counts=False)
    move(state, "a", Move.REQUEUE, back, at=now + 5000)
    assert started(plan_of(state, now + 5000)) == ["b"]
