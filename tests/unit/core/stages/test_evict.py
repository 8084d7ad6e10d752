"""Searches for victims: by importance, by rank, by choice; and nobody is preempted for two."""

from typing import Any

from tests.builders import a_job, a_node, a_placement, a_state, entry_of, run, start
from tests.unit.core.stages.drafts import a_draft, preempted
from tgpu.core.cycle import schedule
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.node import Part, Placement, Share
from tgpu.core.model.rules import PreemptionRules, Rules
from tgpu.core.policies import order_policy
from tgpu.core.policies.slots import ChoicePolicy
from tgpu.core.stages.draft import Draft
from tgpu.core.stages.evict import Evictions
from tgpu.core.state.cluster_state import State

HOUR = 3_600_000
RULES = Rules(preemption=PreemptionRules())


def a_full_box(since: tuple[int, int] = (0, 1), **vip: Any) -> State:
    """`a` and `b` run, each on one of two GPUs; `vip` waits for one."""
    jobs = [a_job("a"), a_job("b"), a_job("vip", **{"priority": 900, **vip})]
    state = a_state(*jobs, nodes=[a_node(gpus=2)])
    for index, job_id in enumerate(("a", "b")):
        start(state, job_id, index, at=since[index])
        run(state, job_id, at=since[index])
    return state


def make_room(state: State, rules: Rules = RULES) -> Draft:
    draft = a_draft(state, 10, rules)
    evictions = Evictions(draft)
    evictions.make_room(entry_of(state, "vip").queue, JobId("vip"))
    return draft


def test_who_loses_least_is_preempted_for_who_is_more_important() -> None:
    assert preempted(make_room(a_full_box())) == [("b", "vip")]


def test_nobody_is_preempted_by_an_equal_or_where_it_is_off() -> None:
    assert preempted(make_room(a_full_box(priority=500))) == []
    assert preempted(make_room(a_full_box(), Rules())) == []


def test_a_second_search_leaves_the_victims_of_the_first_alone() -> None:
    state = a_full_box()
    draft = a_draft(state, 10, RULES)
    evictions, queue = Evictions(draft), entry_of(state, "vip").queue
    found = [evictions.make_room(queue, JobId("vip")) for _ in range(3)]
    assert found == [True, True, False]
    assert preempted(draft) == [("b", "vip"), ("a", "vip")]


def test_an_order_with_ranks_preempts_who_had_more() -> None:
    state = a_full_box((HOUR // 2, 0), priority=500, submitted_at=HOUR)
    draft = a_draft(state, HOUR, RULES)
    evictions = Evictions(draft)
    evictions.ranking = order_policy("las").at(state, HOUR)  # type: ignore[assignment]  # it ranks
    assert evictions.make_room(entry_of(state, "vip").queue, JobId("vip"))
    assert preempted(draft) == [("b", "vip")]


def test_a_plug_in_names_the_victim_whatever_the_priority() -> None:
    state = a_full_box(priority=1)
    draft = a_draft(state, 10, RULES)
    policy = ChoicePolicy("mine", lambda _, jobs: None, lambda running, job: running[-1])
    entry = entry_of(state, "vip")
    Evictions(draft).make_room_by_choice(entry.job, entry.queue.job_class, policy)
    assert len(preempted(draft)) == 1


def test_nobody_is_preempted_for_two_by_rank_and_by_importance() -> None:
    """`x` is on both nodes. By rank it is preempted with `y` for `both`, which needs the first
    node; by importance alone it would be for `one`, which needs the second."""
    jobs = [
        a_job("x", gpus=2, workers=2, priority=400),
        a_job("y"),
        a_job("z", preemptible=False),
        a_job("both", gpus=2, submitted_at=5 * HOUR),
        a_job("one", submitted_at=5 * HOUR + 1),
    ]
    state = a_state(*jobs, nodes=[a_node("n0", 2), a_node("n1", 2)])
    whole = (Share(0, 1000),)
    on_both = Placement(NodeId("n0"), "A100", whole, (Part(NodeId("n1"), whole),))
    start(state, "x", placement=on_both)
    start(state, "y", placement=a_placement(1, node="n0"))
    start(state, "z", placement=a_placement(1, node="n1"))
    for job_id in ("x", "y", "z"):
        run(state, job_id)
    plan = schedule(state, 5 * HOUR + 2, order_policy("las"), rules=RULES)
    victims = [one.victim for one in plan.preemptions]
    assert sorted(victims) == ["x", "y"]
    assert {one.to for one in plan.preemptions} == {"both"}
