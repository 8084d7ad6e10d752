"""Jobs that others are preempted for: they start, wait for their place, or have waited in vain."""

from tests.builders import (
    a_booking,
    a_gpu,
    a_job,
    a_node,
    a_placement,
    a_state,
    end,
    entry_of,
    move,
    run,
    start,
)
from tests.unit.core.stages.drafts import a_draft, starts
from tgpu.core.model.events import BookingSet, NodeSet
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import Move, ask_preemption, nominate
from tgpu.core.stages.draft import Draft
from tgpu.core.stages.nominated import serve_nominated
from tgpu.core.state.cluster_state import State


def nominate_for(state: State, job_id: str, *gpus: int, node: str = "n0") -> None:
    progress = entry_of(state, job_id).progress
    promised = nominate(JobId(job_id), progress, a_placement(*gpus, node=node))
    move(state, job_id, Move.NOMINATE, promised)


def give_way(state: State, victim: str, to: str) -> None:
    progress = entry_of(state, victim).progress
    move(state, victim, Move.STOP, ask_preemption(JobId(victim), progress, JobId(to), "x"))


def with_a_nomination(is_leaving: bool = True) -> State:
    """`b` is nominated for both GPUs, on which `a` is."""
    state = a_state(a_job("a", gpus=2), a_job("b", gpus=2), nodes=[a_node(gpus=2)])
    start(state, "a", 0, 1)
    run(state, "a")
    if is_leaving:
        give_way(state, "a", "b")
    nominate_for(state, "b", 0, 1)
    return state


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
    nominate_for(state, "b", 0, 1)
    assert starts(served(state)) == ["b"]


def test_who_waits_in_vain_is_back_in_line() -> None:
    draft = served(with_a_nomination(is_leaving=False))
    assert (draft.served, draft.holds.owners()) == (set(), [])


def test_a_gpu_that_failed_is_waited_for_in_vain() -> None:
    state = a_state(a_job("b", gpus=2), nodes=[a_node(gpus=2)])
    nominate_for(state, "b", 0, 1)
    state.apply(NodeSet(0, a_node(gpus=[a_gpu(0), a_gpu(1, problem="broken")])))
    assert served(state).served == set()


def test_what_somebody_else_refused_neither_starts_nor_keeps_anything() -> None:
    state = a_state(a_job("b", gpus=2), nodes=[a_node(gpus=2)])
    nominate_for(state, "b", 0, 1)
    draft = served(state, refused_classes={entry_of(state, "b").queue.job_class})
    assert (starts(draft), draft.served, draft.holds.owners()) == ([], {"b"}, [])


def with_two_nominations() -> State:
    """`small` waits for GPU 0 of n1, `large` for both of n0: one of them is free already."""
    jobs = (a_job("v0"), a_job("v1"), a_job("other"), a_job("small"))
    younger = a_job("large", gpus=2, submitted_at=1)
    state = a_state(*jobs, younger, nodes=[a_node("n0", gpus=2), a_node("n1", gpus=2)])
    for job_id, gpu, node in (("v0", 0, "n0"), ("v1", 0, "n1"), ("other", 1, "n1")):
        start(state, job_id, gpu, node=node)
        run(state, job_id)
    give_way(state, "v1", "small")
    give_way(state, "v0", "large")
    nominate_for(state, "small", 0, node="n1")
    nominate_for(state, "large", 0, 1, node="n0")
    return state


def test_nobody_starts_on_what_is_cleared_for_a_younger_one() -> None:
    draft = served(with_two_nominations())
    assert (starts(draft), draft.served) == ([], {"small", "large"})
    assert [hold.owner for hold in draft.holds.owners()] == ["small", "large"]


def test_it_starts_when_those_preempted_for_it_are_gone_whoever_else_waits() -> None:
    state = with_two_nominations()
    end(state, "v0")
    assert [(one.job_id, one.placement) for one in served(state).starts] == [
        ("large", a_placement(0, 1, node="n0"))
    ]


def test_of_two_with_one_place_the_older_starts_and_the_other_is_back_in_line() -> None:
    state = a_state(a_job("b", gpus=2), a_job("c", gpus=2), nodes=[a_node(gpus=2)])
    nominate_for(state, "b", 0, 1)
    nominate_for(state, "c", 0, 1)
    draft = served(state)
    assert (starts(draft), draft.served, draft.holds.owners()) == (["b"], {"b"}, [])


def test_a_place_that_was_reserved_since_is_waited_for_in_vain() -> None:
    state = a_state(a_job("b", gpus=2), nodes=[a_node(gpus=2)])
    nominate_for(state, "b", 0, 1)
    state.apply(BookingSet(0, a_booking("r-1", 0, starts_at=0)))
    assert served(state).served == set()
