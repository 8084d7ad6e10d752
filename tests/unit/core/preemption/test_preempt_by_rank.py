"""Victims of a higher rank: as few GPUs as will do, and nobody where that is not enough."""

from typing import Any

from tests.builders import a_job, a_node, a_state, entry_of, run, start, submit
from tests.unit.core.stages.drafts import a_draft
from tgpu.core.model.rules import PreemptionRules
from tgpu.core.policies.attained import Adaptive, LeastAttained
from tgpu.core.preemption.preempt import Eviction
from tgpu.core.preemption.preempt_by_rank import RankedJobs
from tgpu.core.state.cluster_state import State

HOUR = 3_600_000
NOW = 5 * HOUR


def running(*jobs: tuple[str, int, int], nodes: int = 1, **wants: Any) -> State:
    """(id, GPUs, since) side by side, each node four GPUs full; `new` has just come."""
    state = a_state(
        *[a_job(job_id, gpus=gpus) for job_id, gpus, _ in jobs],
        nodes=[a_node(f"n{number}", 4) for number in range(nodes)],
    )
    at = 0
    for job_id, gpus, since in jobs:
        indexes = range(at % 4, at % 4 + gpus)
        start(state, job_id, *indexes, at=since, node=f"n{at // 4}")
        run(state, job_id, at=since)
        at += gpus
    submit(state, a_job("new", **{"submitted_at": NOW, **wants}))
    return state


def found_for_new(
    state: State, policy: LeastAttained | Adaptive | None = None, **rules: Any
) -> Eviction | None:
    order = (policy or LeastAttained()).at(state, NOW)
    known = PreemptionRules(keeps_work=True, **rules)
    ranked = RankedJobs(state, order, known, NOW)
    draft, entry = a_draft(state, NOW), entry_of(state, "new")
    return ranked.find(entry, ("new",), draft.trial, draft.holds)


def victims(eviction: Eviction | None) -> list[str]:
    return [] if eviction is None else [one.victim for one in eviction.victims]


def test_who_had_most_is_preempted() -> None:
    state = running(("little", 2, 4 * HOUR), ("much", 2, 0))
    assert victims(found_for_new(state)) == ["much"]


def test_of_two_nodes_the_one_on_which_fewer_gpus_go_is_cleared() -> None:
    state = running(("large", 4, 0), ("small", 1, 0), ("young", 3, NOW - HOUR // 2), nodes=2)
    assert victims(found_for_new(state)) == ["small"]


def test_nobody_goes_for_who_would_not_start_by_it() -> None:
    assert found_for_new(running(("a", 4, 0), gpus=8)) is None


def test_nobody_goes_who_has_no_higher_rank() -> None:
    assert found_for_new(running(("a", 4, NOW))) is None


def test_nobody_goes_who_may_not_be_preempted() -> None:
    state = running(("a", 4, 0))
    assert found_for_new(state, min_run_ms=NOW + 1) is None


def test_a_gang_clears_as_many_nodes_as_it_needs() -> None:
    state = running(("a", 4, 0), ("b", 4, 0), ("c", 4, HOUR), nodes=3, gpus=8, workers=2)
    found = found_for_new(state)
    assert sorted(victims(found)) == ["a", "b"]
    assert found is not None
    assert sorted(part.node_id for part in found.placement.parts()) == ["n0", "n1"]


def test_who_was_left_out_is_not_found() -> None:
    state = running(("a", 4, 0))
    ranked = RankedJobs(state, LeastAttained().at(state, NOW), PreemptionRules(), NOW)
    ranked.leave_out([entry_of(state, "a").job.job_id])
    draft, entry = a_draft(state, NOW), entry_of(state, "new")
    assert ranked.find(entry, ("new",), draft.trial, draft.holds) is None


def test_an_order_that_minds_the_cost_waits_first() -> None:
    state = running(*[(f"a{n:02}", 4, 0) for n in range(8)], nodes=8, gpus=4)
    assert found_for_new(state, Adaptive()) is None
    waited = running(*[(f"a{n:02}", 4, 0) for n in range(8)], nodes=8, gpus=4, submitted_at=0)
    assert found_for_new(waited, Adaptive()) is not None
