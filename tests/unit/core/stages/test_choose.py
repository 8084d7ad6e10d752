"""The order of a plug-in."""

from collections.abc import Sequence

import pytest

from tests.builders import a_job, a_node, a_queue, a_state, entry_of
from tests.unit.core.stages.drafts import a_draft, starts
from tgpu.core.errors import InvariantBroken
from tgpu.core.model.job import Job
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.policies.slots import ChoicePolicy
from tgpu.core.stages.choose import serve_by_choice
from tgpu.core.stages.draft import Draft
from tgpu.core.stages.evict import Evictions


def newest(queue: TenantQueue, jobs: Sequence[Job]) -> Job | None:
    return jobs[-1] if jobs else None


def serve(draft: Draft, choose=newest) -> list[str]:
    serve_by_choice(draft, ChoicePolicy("mine", choose), Evictions(draft))
    return starts(draft)


def test_jobs_start_in_the_order_in_which_they_are_named() -> None:
    state = a_state(*[a_job(f"j{n}", submitted_at=n) for n in range(3)])
    assert serve(a_draft(state)) == ["j2", "j1", "j0"]


def test_who_does_not_fit_is_passed() -> None:
    state = a_state(a_job("a"), a_job("b", gpus=4, submitted_at=1), nodes=[a_node(gpus=2)])
    assert serve(a_draft(state)) == ["a"]


def test_none_ends_the_queue_and_the_next_is_asked_about() -> None:
    queues = [a_queue("high", priority=5)]
    state = a_state(a_job("a"), a_job("b", queue="high"), queues=queues)
    asked: list[str] = []

    def nobody_of_high(queue: TenantQueue, jobs: Sequence[Job]) -> Job | None:
        asked.append(queue.name)
        return None if queue.name == "high" else jobs[0]

    assert serve(a_draft(state), nobody_of_high) == ["a"]
    assert asked == ["high", "default"]


def test_it_is_not_shown_who_was_served_before_or_started_of_what_was_refused() -> None:
    state = a_state(a_job("a"), a_job("b", priority=1), a_job("c", priority=2))
    draft = a_draft(state, refused_classes={entry_of(state, "b").queue.job_class})
    draft.served.add(entry_of(state, "a").job.job_id)
    assert serve(draft) == ["c"]


def test_a_job_that_was_not_shown_cannot_be_chosen() -> None:
    with pytest.raises(InvariantBroken, match="policy mine chose job other"):
        serve(a_draft(a_state(a_job("a"))), lambda queue, jobs: a_job("other"))
