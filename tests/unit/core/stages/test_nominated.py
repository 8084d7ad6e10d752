"""Jobs that others are preempted for: they start, wait for their place, or have waited in vain."""

from tests.builders import a_gpu, a_job, a_node, a_placement, a_state, entry_of, move, run, start
from tests.unit.core.stages.drafts import a_draft, starts
from tgpu.core.model.events import NodeSet
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import Move, ask_preemption, nominate
from tgpu.core.stages.draft import Draft
from tgpu.core.stages.nominated import serve_nominated
from tgpu.core.state.cluster_state import State


def with_a_nomination(is_leaving: bool = True) -> State:
    """`b` is nominated for both GPUs, on which `a` is."""
    state = a_state(a_job("a", gpus=2), a_job("b", gpus=2), nodes=[a_node(gpus=2)])
    start(state, "a", 0, 1)
    run(state, "a")
    if is_leaving:
        progress = ask_preemption(JobId("a"), entry_of(state, "a").progress, JobId("b"), "x")
        move(state, "a", Move.STOP, progress)
    move(state, "b", Move.NOMINATE, nominate(JobId("b"), entry_of(state, "b").progress, both()))
    return state


def both():
    return a_placement(0, 1)


def served(state: State, **known: object) -> Draft:
    draft = a_draft(state, **known)  # type: ignore[arg-type]  # the test knows the fields
    serve_nominated(draft)
    return draft


def test_who_is_still_waited_for_keeps_the_place() -> None:
    draft = served(with_a_nomination())
    assert (starts(draft), draft.served) == ([], {"b"})
    assert [hold.owner for hold in draft.holds.owners()] == ["b"]


def test_it_starts_once_its_place_is_free() -> None:
    state = a_state(a_job("b", gpus=2), a_job("first"), nodes=[a_node(gpus=2)])
    move(state, "b", Move.NOMINATE, nominate(JobId("b"), entry_of(state, "b").progress, both()))
    assert starts(served(state)) == ["b"]


def test_who_waits_in_vain_is_back_in_line() -> None:
    draft = served(with_a_nomination(is_leaving=False))
    assert (draft.served, draft.holds.owners()) == (set(), [])


def test_a_gpu_that_failed_is_waited_for_in_vain() -> None:
    state = a_state(a_job("b", gpus=2), nodes=[a_node(gpus=2)])
    move(state, "b", Move.NOMINATE, nominate(JobId("b"), entry_of(state, "b").progress, both()))
    state.apply(NodeSet(0, a_node(gpus=[a_gpu(0), a_gpu(1, problem="broken")])))
    assert served(state).served == set()


def test_what_somebody_else_refused_neither_starts_nor_keeps_anything() -> None:
    state = a_state(a_job("b", gpus=2), nodes=[a_node(gpus=2)])
    move(state, "b", Move.NOMINATE, nominate(JobId("b"), entry_of(state, "b").progress, both()))
    draft = served(state, refused_classes={entry_of(state, "b").queue.job_class})
    assert (starts(draft), draft.served, draft.holds.owners()) == ([], {"b"}, [])
