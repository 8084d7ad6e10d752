"""What all stages share: places, starts and what is kept."""

from tests.builders import a_job, a_placement, a_state, a_tenant, entry_of, run, start
from tests.unit.core.stages.drafts import a_draft
from tgpu.core.capacity.ledger import Trial
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import JobClass
from tgpu.core.model.plan import Preemption, PreemptionCause
from tgpu.core.preemption.preempt import Eviction
from tgpu.core.reservations.reserved_capacity import ReservedCapacity
from tgpu.core.stages.draft import Draft


def start_on(draft: Draft, job_id: str) -> None:
    entry = draft.entry(JobId(job_id))
    placement = draft.place(entry.queue)
    assert placement is not None
    draft.start(entry, placement)


def test_a_start_is_in_the_ledger_once_it_is_taken() -> None:
    draft = a_draft(a_state(a_job("a", gpus=8), a_job("b", gpus=8, priority=1)))
    start_on(draft, "a")
    waiting = draft.entry(JobId("b")).queue
    assert draft.place(waiting) is not None
    draft.take_started()
    assert draft.place(waiting) is None
    draft.trial.undo()
    assert draft.ledger.nodes["n0"].gpu_millis == {}  # type: ignore[index]  # an id is a text


def test_a_shape_that_found_no_room_is_not_placed_again() -> None:
    state = a_state(a_job("a", gpus=8), a_job("b", gpus=8, priority=1))
    start(state, "a", *range(8))
    draft = a_draft(state)
    waiting = draft.entry(JobId("b")).queue
    assert draft.place(waiting) is None
    draft.trial.give(entry_of(state, "a").job, a_placement(*range(8)))
    assert draft.place(waiting) is None  # in a cycle room only shrinks


def test_a_limit_in_the_way_is_told_from_want_of_room() -> None:
    tenants = [a_tenant("poor", gpus=1), a_tenant("rich")]
    state = a_state(a_job("a", "poor", gpus=2), a_job("b", "rich", gpus=9), tenants=tenants)
    draft = a_draft(state)
    for job_id, is_refused in (("a", True), ("b", False)):
        queue = draft.entry(JobId(job_id)).queue
        assert draft.place(queue) is None
        assert draft.is_refused(queue.job_class) is is_refused


def test_what_is_held_no_longer_is_seen_again() -> None:
    state = a_state(a_job("a", gpus=8), a_job("b", gpus=1))
    draft = a_draft(state)
    draft.holds.add(entry_of(state, "a").job, a_placement(*range(8)), 0)
    queue = draft.entry(JobId("b")).queue
    assert draft.place(queue) is None
    draft.give_up_hold(JobId("a"), a_placement(*range(8)))
    assert draft.place(queue) is not None


def test_a_place_that_others_give_up_is_kept_for_its_job() -> None:
    state = a_state(a_job("a", gpus=8), a_job("b", gpus=8), a_job("c", gpus=1))
    start(state, "a", *range(8))
    run(state, "a")
    draft = a_draft(state)
    victim = Preemption(JobId("a"), JobId("b"), PreemptionCause.PRIORITY, 0)
    draft.evict(entry_of(state, "b").job, Eviction((victim,), a_placement(*range(8))))
    plan = draft.plan()
    assert plan.preemptions == (victim,)
    assert [one.job_id for one in plan.nominations] == ["b"]
    draft.trial.give(entry_of(state, "a").job, a_placement(*range(8)))
    assert draft.place(draft.entry(JobId("c")).queue) is None


def test_an_observer_is_shown_who_cannot_start() -> None:
    class Notes:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def cannot_start(
            self, job_class: JobClass, job_id: JobId, trial: Trial, holds: ReservedCapacity
        ):
            self.seen.append(job_id)

    notes = Notes()
    state = a_state(a_job("a"))
    a_draft(state, observer=notes).tell_observer(entry_of(state, "a").queue.job_class, JobId("a"))
    a_draft(state).tell_observer(entry_of(state, "a").queue.job_class, JobId("a"))
    assert notes.seen == ["a"]
