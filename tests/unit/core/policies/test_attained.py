"""Orders by the GPU time that jobs had: which goes first, and which is preempted."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.builders import (
    a_job,
    a_node,
    a_placement,
    a_queue,
    a_state,
    a_tenant,
    entry_of,
    move,
    run,
    start,
    started,
    submit,
)
from tgpu.core.cycle import schedule
from tgpu.core.model import lifecycle
from tgpu.core.model.events import TimePassed
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import Move
from tgpu.core.model.plan import Plan, PreemptionCause
from tgpu.core.model.rules import PreemptionRules, Rules
from tgpu.core.policies import order_policy
from tgpu.core.policies.attained import Adaptive, LeastAttained
from tgpu.core.state.cluster_state import State

SECOND, HOUR, DAY = 1000, 3_600_000, 86_400_000
NOBODY_ASKED: list[str] = []


def running(state: State, job_id: str, *gpus: int, since: int, node: str = "n0") -> None:
    start(state, job_id, *gpus, at=since, node=node)
    run(state, job_id, at=since)


def plan_of(state: State, now: int, policy: str = "las", **rules: Any) -> Plan:
    state.apply(TimePassed(now))
    with_preemption = Rules(preemption=PreemptionRules(keeps_work=True, **rules))
    return schedule(state, now, order_policy(policy), rules=with_preemption)


def asked(plan: Plan) -> list[str]:
    return [preemption.victim for preemption in plan.preemptions]


def a_full_node(**fields: Any) -> State:
    """`long` has run for hours on all 8 GPUs; `new` comes."""
    state = a_state(a_job("long", gpus=8, **fields))
    running(state, "long", *range(8), since=0)
    submit(state, a_job("new", gpus=8, submitted_at=5 * HOUR))
    return state


def test_who_had_less_gpu_time_starts_first() -> None:
    state = a_state(a_job("had", gpus=8), a_job("new", gpus=8, submitted_at=50))
    running(state, "had", *range(8), since=0)
    give_up(state, "had", at=HOUR)
    assert started(plan_of(state, HOUR)) == ["new"]


def give_up(state: State, job_id: str, at: int) -> None:
    id_ = JobId(job_id)
    asked_to = lifecycle.ask_preemption(
        id_, entry_of(state, job_id).progress, JobId("x"), "preempted"
    )
    millis = entry_of(state, job_id).job.request.gpu_millis
    gone = lifecycle.preempt(id_, asked_to, at, millis)
    move(state, job_id, Move.PREEMPT, gone, at=at)
    back = lifecycle.requeue(id_, gone, at, "preempted", counts=False)
    move(state, job_id, Move.REQUEUE, back, at=at)


def test_a_newcomer_pushes_out_who_has_run_for_long() -> None:
    plan = plan_of(a_full_node(), 5 * HOUR)
    assert asked(plan) == ["long"]
    assert plan.preemptions[0].cause is PreemptionCause.POLICY
    assert plan.preemptions[0].to == "new"
    assert [claim.job_id for claim in plan.nominations] == ["new"]


def test_no_job_is_preempted_for_a_job_on_the_same_step() -> None:
    state = a_state(a_job("a", gpus=8))
    running(state, "a", *range(8), since=0)
    give_up(state, "a", at=100 * SECOND)  # 800 GPU seconds: the step from 512 to 1,024
    submit(state, a_job("b", gpus=8, submitted_at=100 * SECOND))
    running(state, "b", *range(8), since=100 * SECOND)
    assert asked(plan_of(state, 227 * SECOND)) == NOBODY_ASKED  # b has had 1,016
    assert asked(plan_of(state, 228 * SECOND)) == ["b"]


def test_the_step_of_a_preempted_job_is_kept() -> None:
    """Or two jobs would push each other out in turn."""
    state = a_full_node()
    give_up(state, "long", at=5 * HOUR)
    running(state, "new", *range(8), since=5 * HOUR)
    assert asked(plan_of(state, 9 * HOUR)) == NOBODY_ASKED


@pytest.mark.parametrize(
    "fields", [{"preemptible": False}, {"priority": 900}], ids=["not preemptible", "important"]
)
def test_nobody_is_asked_who_may_not_be(fields: dict[str, Any]) -> None:
    assert asked(plan_of(a_full_node(**fields), 5 * HOUR)) == NOBODY_ASKED


def test_no_job_is_preempted_where_preemption_is_off() -> None:
    state = a_full_node()
    assert not schedule(state, 5 * HOUR, order_policy("las")).preemptions


def test_no_job_is_preempted_for_a_job_that_its_quota_keeps_back() -> None:
    tenants = [a_tenant(), a_tenant("poor", gpus=4)]
    state = a_state(a_job("long", gpus=8), tenants=tenants)
    running(state, "long", *range(8), since=0)
    submit(state, a_job("new", "poor", gpus=8, submitted_at=HOUR))
    assert asked(plan_of(state, HOUR)) == NOBODY_ASKED


def test_no_job_is_preempted_for_a_job_of_a_lower_queue() -> None:
    queues = [a_queue("high", priority=5), a_queue("low", priority=1)]
    state = a_state(a_job("long", gpus=8, queue="high"), queues=queues)
    running(state, "long", *range(8), since=0)
    submit(state, a_job("new", gpus=8, queue="low", submitted_at=HOUR))
    assert asked(plan_of(state, HOUR)) == NOBODY_ASKED


def test_the_fewest_gpus_are_preempted() -> None:
    nodes = [a_node("n0", 4), a_node("n1", 4)]
    state = a_state(a_job("four", gpus=4), a_job("two", gpus=2), a_job("also", gpus=2), nodes=nodes)
    running(state, "four", *range(4), since=0)
    running(state, "two", 0, 1, since=0, node="n1")
    running(state, "also", 2, 3, since=0, node="n1")
    submit(state, a_job("new", gpus=2, submitted_at=HOUR))
    assert asked(plan_of(state, HOUR)) in (["two"], ["also"])


def test_a_gang_gets_whole_nodes_and_nobody_goes_in_vain() -> None:
    nodes = [a_node(f"n{number}", 4) for number in range(3)]
    jobs = [a_job("a", gpus=4), a_job("b", gpus=1), a_job("c", gpus=4)]
    state = a_state(*jobs, nodes=nodes)
    running(state, "a", *range(4), since=0)
    running(state, "b", 0, since=0, node="n1")
    running(state, "c", *range(4), since=0, node="n2")
    submit(state, a_job("gang", gpus=8, workers=2, submitted_at=HOUR))
    plan = plan_of(state, HOUR)
    assert len(plan.preemptions) == 2
    assert "b" in asked(plan)


def test_a_gang_pushes_nobody_out_where_it_would_still_not_fit() -> None:
    nodes = [a_node("n0", 4), a_node("n1", 4)]
    state = a_state(a_job("a", gpus=4), a_job("fixed", gpus=1, preemptible=False), nodes=nodes)
    running(state, "a", *range(4), since=0)
    running(state, "fixed", 0, since=0, node="n1")
    submit(state, a_job("gang", gpus=8, workers=2, submitted_at=HOUR))
    assert asked(plan_of(state, HOUR)) == NOBODY_ASKED


# -- nobody starves ------------------------------------------------------------------------------


def test_who_has_waited_a_day_longer_than_it_ran_goes_before_all_others() -> None:
    state = a_state(a_job("old", gpus=8))
    running(state, "old", *range(8), since=0)
    give_up(state, "old", at=HOUR)
    submit(state, a_job("new", gpus=8, submitted_at=DAY))
    assert started(plan_of(state, DAY)) == ["new"]
    assert started(plan_of(state, DAY + 2 * HOUR)) == ["old"]


def test_it_is_not_pushed_out_again_before_it_has_caught_up() -> None:
    state = a_state(a_job("old", gpus=8))
    running(state, "old", *range(8), since=3 * DAY)
    submit(state, a_job("new", gpus=8, submitted_at=3 * DAY))
    assert asked(plan_of(state, 3 * DAY + 20 * HOUR)) == NOBODY_ASKED
    assert asked(plan_of(state, 9 * DAY + 3 * HOUR)) == ["old"]


# -- adaptive ------------------------------------------------------------------------------------


def a_busy_yard() -> State:
    """16 nodes of 8 GPUs, a job of 8 on each: none takes much of the whole."""
    jobs = [a_job(f"long{number:02}", gpus=8) for number in range(16)]
    state = a_state(*jobs, nodes=[a_node(f"n{number:02}") for number in range(16)])
    for number in range(16):
        running(state, f"long{number:02}", *range(8), since=0, node=f"n{number:02}")
    submit(state, a_job("new", gpus=8, submitted_at=HOUR))
    return state


def test_a_newcomer_waits_as_long_as_preemption_costs_the_other() -> None:
    state = a_busy_yard()
    assert asked(plan_of(state, HOUR + 39 * SECOND, "adaptive")) == NOBODY_ASKED
    assert len(asked(plan_of(state, HOUR + 40 * SECOND, "adaptive"))) == 1


def test_what_would_be_lost_is_part_of_what_it_costs() -> None:
    state = a_busy_yard()
    now = HOUR + 600 * SECOND
    state.apply(TimePassed(now))
    loses = Rules(preemption=PreemptionRules())
    assert not schedule(state, now, Adaptive(), rules=loses).preemptions
    saved = lifecycle.checkpoint(JobId("long00"), entry_of(state, "long00").progress, now)
    move(state, "long00", Move.CHECKPOINT, saved, at=now)
    assert asked(schedule(state, now, Adaptive(), rules=loses)) == ["long00"]


def test_who_is_overdue_minds_no_costs() -> None:
    state = a_busy_yard()
    state.apply(TimePassed(3 * DAY))
    loses = Rules(preemption=PreemptionRules())
    assert schedule(state, 3 * DAY, Adaptive(), rules=loses).preemptions


def test_who_can_save_its_work_loses_none() -> None:
    state = a_state(a_job("a", gpus=1, checkpoint_signal=10), nodes=[a_node(gpus=1)] * 1)
    running(state, "a", 0, since=0)
    submit(state, a_job("b", gpus=1, submitted_at=HOUR))
    loses = Rules(preemption=PreemptionRules())
    later = HOUR + 2 * 620 * SECOND
    assert [p.victim for p in schedule(state, later, Adaptive(), rules=loses).preemptions] == ["a"]


def a_box_of_two_sorts() -> State:
    """Of 8 jobs on 8 GPUs the oldest saves its work when told; `new` waits."""
    saver = a_job("saver", gpus=1, checkpoint_signal=10)
    others = [a_job(f"loser{number}", gpus=1, submitted_at=1) for number in range(1, 8)]
    state = a_state(saver, *others)
    running(state, "saver", 0, since=2 * HOUR)
    for number in range(1, 8):
        running(state, f"loser{number}", number, since=0)
    submit(state, a_job("new", gpus=1, submitted_at=3 * HOUR))
    return state


def test_where_others_lose_too_much_who_saves_its_work_is_asked() -> None:
    """Those of the highest rank would be asked first."""
    state, loses = a_box_of_two_sorts(), Rules(preemption=PreemptionRules())
    now = 3 * HOUR + 40 * SECOND
    state.apply(TimePassed(now))
    assert asked(schedule(state, now, LeastAttained(), rules=loses)) != ["saver"]
    assert asked(schedule(state, now, Adaptive(), rules=loses)) == ["saver"]


def test_who_marked_that_it_saved_its_work_is_asked_as_well() -> None:
    state, loses = a_box_of_two_sorts(), Rules(preemption=PreemptionRules())
    marked = 3 * HOUR + 80 * SECOND
    saved = lifecycle.checkpoint(JobId("loser3"), entry_of(state, "loser3").progress, marked)
    move(state, "loser3", Move.CHECKPOINT, saved, at=marked)
    now = marked + 20 * SECOND
    state.apply(TimePassed(now))
    assert asked(schedule(state, now, Adaptive(), rules=loses)) == ["loser3"]


def test_who_marked_it_too_long_ago_is_not() -> None:
    state, loses = a_box_of_two_sorts(), Rules(preemption=PreemptionRules())
    saved = lifecycle.checkpoint(JobId("loser3"), entry_of(state, "loser3").progress, 3 * HOUR)
    move(state, "loser3", Move.CHECKPOINT, saved, at=3 * HOUR)
    now = 3 * HOUR + 60 * SECOND
    state.apply(TimePassed(now))
    assert asked(schedule(state, now, Adaptive(), rules=loses)) == ["saver"]


def a_pool_of_gangs() -> State:
    """A gang has 3 of 4 nodes; the newcomer needs 2."""
    state = a_state(
        a_job("gang", gpus=24, workers=3), nodes=[a_node(f"n{number}") for number in range(4)]
    )
    first = a_placement(*range(8), node="n0")
    others = tuple(a_placement(*range(8), node=f"n{n}").parts()[0] for n in (1, 2))
    start(state, "gang", placement=replace(first, others=others), at=0)
    run(state, "gang", at=0)
    submit(state, a_job("new", gpus=16, workers=2, submitted_at=HOUR))
    return state


def test_a_gang_that_takes_most_of_the_cluster_is_preempted_only_after_a_long_wait() -> None:
    state = a_pool_of_gangs()
    assert asked(plan_of(state, HOUR, "las")) == ["gang"]
    assert asked(plan_of(state, HOUR + 1239 * SECOND, "adaptive")) == NOBODY_ASKED
    assert asked(plan_of(state, HOUR + 1240 * SECOND, "adaptive")) == ["gang"]


def test_a_gang_that_was_preempted_comes_back_after_the_trial() -> None:
    state = a_pool_of_gangs()
    give_up(state, "gang", at=2 * HOUR)
    first = a_placement(*range(8), node="n0")
    both = replace(first, others=a_placement(*range(8), node="n1").parts())
    start(state, "new", placement=both, at=2 * HOUR)
    run(state, "new", at=2 * HOUR)
    assert asked(plan_of(state, 2 * HOUR + 60 * SECOND, "adaptive")) == NOBODY_ASKED
    assert asked(plan_of(state, 2 * HOUR + 600 * SECOND, "adaptive")) == ["new"]


def test_between_jobs_that_had_their_trial_who_came_first_goes_first() -> None:
    order = Adaptive().at(a_pool_of_gangs(), 2 * HOUR)
    assert order.trial_ms == 600 * SECOND
    state = a_pool_of_gangs()
    assert order.rank(entry_of(state, "new")) < order.rank(entry_of(state, "gang"))


def test_without_gangs_adaptive_goes_by_gpu_time() -> None:
    assert Adaptive().at(a_busy_yard(), HOUR).trial_ms is None
    assert Adaptive().at(a_state(), HOUR).trial_ms is None


def test_las_minds_neither_costs_nor_gangs() -> None:
    order = LeastAttained().at(a_pool_of_gangs(), HOUR)
    assert (order.trial_ms, order.patience) == (None, 0)
