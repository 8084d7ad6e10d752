"""Heads in order: who starts, who is put aside, who is passed."""

from tests.builders import a_job, a_node, a_queue, a_state, a_tenant, entry_of, start
from tests.unit.core.stages.drafts import a_draft, starts
from tgpu.core.model.rules import BackfillMode, Rules
from tgpu.core.policies import order_policies
from tgpu.core.policies.fifo import Fifo
from tgpu.core.stages.backfill import Backfill
from tgpu.core.stages.draft import Draft
from tgpu.core.stages.evict import Evictions
from tgpu.core.stages.serve import serve_in_order


def serve(draft: Draft) -> list[str]:
    serve_in_order(draft, Fifo(), order_policies(), Backfill(draft), Evictions(draft))
    return starts(draft)


def test_who_cannot_start_is_passed_with_all_of_its_class() -> None:
    jobs = [a_job(f"large{n}", gpus=8, submitted_at=n) for n in range(2)]
    state = a_state(*jobs, a_job("small", submitted_at=5), nodes=[a_node(gpus=4)])
    assert serve(a_draft(state)) == ["small"]


def test_who_was_served_before_is_left_out() -> None:
    draft = a_draft(a_state(a_job("a"), a_job("b", submitted_at=1)))
    draft.served.add(entry_of(draft.state, "a").job.job_id)
    assert serve(draft) == ["b"]


def test_nothing_of_a_class_that_somebody_else_refused_starts() -> None:
    state = a_state(a_job("a", priority=1), a_job("b", submitted_at=1))
    assert serve(a_draft(state, refused_classes={entry_of(state, "a").queue.job_class})) == ["b"]


def test_who_would_borrow_comes_after_everybody_else() -> None:
    tenants = [a_tenant(name, gpus=2, cohort="all") for name in ("one", "two")]
    jobs = [a_job("more", "one", gpus=3), a_job("own", "two", gpus=2, submitted_at=1)]
    state = a_state(*jobs, nodes=[a_node(gpus=4)], tenants=tenants)
    assert serve(a_draft(state)) == ["own"]


def test_under_strict_nobody_is_served_behind_who_cannot_start() -> None:
    state = a_state(
        a_job("running", gpus=1),
        a_job("a", gpus=3, submitted_at=1),
        a_job("b", submitted_at=2),
        nodes=[a_node(gpus=3)],
    )
    start(state, "running", 0)
    draft = a_draft(state, 5, Rules(BackfillMode.STRICT))
    assert serve(draft) == []
    assert draft.stopped_by == "a"


def test_a_queue_with_an_order_of_its_own_is_served_in_it() -> None:
    jobs = [
        a_job("old", priority=1, queue="mine"),
        a_job("high", priority=9, queue="mine", submitted_at=1),
    ]
    state = a_state(*jobs, nodes=[a_node(gpus=1)], queues=[a_queue("mine", policy="priority")])
    assert serve(a_draft(state)) == ["high"]
