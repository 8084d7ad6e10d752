"""What is told to whoever asks why a job waits holds when it is carried out."""

import asyncio
import copy
from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_copy, end_anyhow, entry_of, explain, snapshot, waiting_ids
from tests.property.every_rule_world import Yard
from tests.property.test_explain_is_true import remove_cause
from tgpu.core.events import JobsSubmitted
from tgpu.core.explain import explain_class, no_room
from tgpu.core.ids import JobId, NodeId
from tgpu.core.job import JobClass
from tgpu.core.lifecycle import JobState
from tgpu.core.reasons import ReasonCode
from tgpu.core.state import State
from tgpu.core.why.ahead import ahead_of
from tgpu.core.why.answer import why
from tgpu.core.why.blockers import ROOM
from tgpu.core.why.changes import cheapest_change
from tgpu.service.ownership import SEES_ALL
from tgpu.service.why import Reasons

seeds = st.integers(0, 2**32)


def everything(state: State) -> dict[str, object]:
    """What is compared includes the order of the classes: nothing may depend on who has asked."""
    ledger = state.ledger
    return {
        **snapshot(state),
        "order": [queue.job_class for queue in state.waiting.all_classes()],
        "bookings": dict(ledger.bookings),
        "cohorts": copy.deepcopy(ledger.cohorts),
        "over_budget": dict(ledger.over_budget),
        "claimants": [entry.job.job_id for entry in state.nominated()],
    }


@given(seed=seeds)
@settings(max_examples=40)
def test_a_question_leaves_the_state_exactly_as_it_was(seed: int) -> None:
    yard = Yard(Random(seed)).live()
    yard.submit()
    before = everything(yard.state)
    decided = yard.decide()
    for entry in yard.pending()[:6]:
        told = why(yard.state, entry, yard.now, yard.decide)
        cheapest_change(yard.state, entry, told, yard.now, yard.decide)
    assert everything(yard.state) == before
    assert yard.decide() == decided


@given(seed=seeds)
@settings(max_examples=40)
def test_the_offered_change_starts_the_job_when_it_is_carried_out(seed: int) -> None:
    yard = Yard(Random(seed)).live()
    yard.submit()
    for entry in yard.pending()[:6]:
        told = why(yard.state, entry, yard.now, yard.decide)
        change = cheapest_change(yard.state, entry, told, yard.now, yard.decide)
        if change is None:
            continue
        state = a_copy(yard.state)
        new = replace(change.job, job_id=JobId("z999"), submitted_at=yard.now)
        end_anyhow(state, entry.job.job_id, JobState.CANCELLED)
        state.apply(JobsSubmitted(yard.now, (new,)))
        assert "z999" in [start.job_id for start in yard.decide(state=state).starts]


@given(seed=seeds)
@settings(max_examples=40)
def test_who_starts_with_the_next_cycle_is_told_so_and_nobody_else(seed: int) -> None:
    yard = Yard(Random(seed)).live()
    yard.submit()
    starting = {start.job_id for start in yard.decide().starts}
    for entry in yard.pending():
        told = why(yard.state, entry, yard.now, yard.decide).reason.code
        assert (told is ReasonCode.NEXT_CYCLE) == (entry.job.job_id in starting)


# Nothing is in its way, or nothing that could be taken out of it.
FOR_GOOD = (
    ReasonCode.NEXT_CYCLE,
    ReasonCode.NO_SUCH_GPU,
    ReasonCode.TOO_LARGE,
    ReasonCode.CONDITION,
)
OF_OTHERS = (ReasonCode.BEHIND_RESERVATION, ReasonCode.PLACE_KEPT, ReasonCode.STRICT_LINE)


@given(seed=seeds)
@settings(max_examples=40)
def test_without_the_named_cause_the_job_starts_or_waits_for_something_else(seed: int) -> None:
    yard = Yard(Random(seed)).live()
    yard.submit()
    for pending in yard.pending()[:6]:
        state, job_id = a_copy(yard.state), pending.job.job_id
        entry = entry_of(state, job_id)
        found = why(state, entry, yard.now, yard.decider(state)).reason
        if found.code in FOR_GOOD or not remove_cause(state, entry, found):
            continue
        if found.code in OF_OTHERS:
            now = why(state, entry, yard.now, yard.decider(state)).reason
        else:  # others may take what was made free: alone it would start, or wait for another thing
            now = explain(state, entry)
        assert now != found


@given(seed=seeds)
@settings(max_examples=40)
def test_the_end_of_those_in_its_way_makes_room(seed: int) -> None:
    yard = Yard(Random(seed)).live()
    yard.submit()
    for pending in yard.pending()[:6]:
        state, job_id = a_copy(yard.state), pending.job.job_id
        entry = entry_of(state, job_id)
        told = why(state, entry, yard.now, yard.decider(state))
        node = dict(told.reason.facts).get("node")
        if told.reason.code not in ROOM or not node:
            continue
        use = state.ledger.node(NodeId(str(node)))
        for blocker in told.blockers:
            end_anyhow(state, blocker.job_id)
        well = all(gpu.is_usable for gpu in use.node.gpus)
        after = explain(state, entry)
        assert not well or after.code not in ROOM, (told, after)


@given(seed=seeds)
@settings(max_examples=40)
def test_the_nearest_node_is_the_one_a_look_at_all_of_them_finds(seed: int) -> None:
    yard = Yard(Random(seed)).live()
    yard.submit()
    books = yard.state.ledger
    everywhere = [books.node(node_id) for node_id in books.node_ids()]
    for entry in yard.pending():
        job_class = entry.queue.job_class
        found = explain_class(books, job_class)
        if found.code in ROOM:
            assert found == no_room(books, everywhere, job_class)


class Gate:
    """One that refuses what it is told to."""

    name = "elsewhere"

    def __init__(self, refused: frozenset[JobClass]) -> None:
        self.refused = refused


def reasons_in(yard: Yard) -> Reasons:
    """As the service has them, with its own rules."""
    classes = [queue.job_class for queue in yard.state.waiting.all_classes()]
    refused = frozenset(one for one in classes if not yard.rng.randrange(4))
    return Reasons(
        yard.state, Gate(refused), yard.policy, {}, lambda now, policy, seen: yard.decide(seen)
    )


@given(seed=seeds, cycles=st.integers(0, 2))
@settings(max_examples=60)
def test_lists_say_what_why_says(seed: int, cycles: int) -> None:
    """Whether a cycle has seen the jobs already or not, and however they are asked for."""
    yard = Yard(Random(seed)).live()
    yard.submit()
    for _ in range(cycles):
        yard.cycle()
    reasons, pending = reasons_in(yard), yard.pending()[:8]
    reasons.look([entry.job.job_id for entry in pending], yard.now)
    before = everything(yard.state)
    for entry in pending:
        job_id = entry.job.job_id
        listed = reasons.reason(job_id, yard.now, SEES_ALL)
        told = asyncio.run(reasons.why(job_id, yard.now, SEES_ALL))
        assert told is not None
        assert listed == told.reason
        # The same without the others of its page, and after something was recorded.
        reasons.forget()
        assert reasons.reason(job_id, yard.now, SEES_ALL) == listed
        reasons.look([entry.job.job_id for entry in pending], yard.now)
    assert everything(yard.state) == before


@given(seed=seeds)
@settings(max_examples=30)
def test_who_is_listed_for_the_next_cycle_starts_with_it(seed: int) -> None:
    yard = Yard(Random(seed)).live()
    yard.submit()
    reasons = reasons_in(yard)
    starts = {start.job_id for start in yard.decide().starts}
    for entry in yard.pending():
        found = reasons.reason(entry.job.job_id, yard.now)
        assert found is not None
        if entry.job.job_id in starts:
            assert found.code in (ReasonCode.NEXT_CYCLE, ReasonCode.QUOTA_PROVIDER)


@given(seed=seeds)
@settings(max_examples=40)
def test_those_ahead_are_those_that_come_before_it_in_the_line(seed: int) -> None:
    yard = Yard(Random(seed)).live()
    yard.submit()
    in_line = set(waiting_ids(yard.state))
    waiting = [entry for entry in yard.pending() if entry.job.job_id in in_line]
    counts = Counter(
        ahead_of(yard.state, entry, yard.now, yard.policy, {}).jobs for entry in waiting
    )
    assert sorted(counts) == list(range(len(waiting)))  # a total order: no two at one place


def test_the_first_few_ahead_come_in_order() -> None:
    yard = Yard(Random(1)).live()
    for _ in range(5):
        yard.submit()
    entries = yard.pending()
    by_place = {ahead_of(yard.state, e, yard.now, yard.policy, {}).jobs: e for e in entries}
    last = by_place[max(by_place)]
    first = ahead_of(yard.state, last, yard.now, yard.policy, {}).first
    assert list(first) == [by_place[place].job.job_id for place in range(len(first))]
    assert entry_of(yard.state, first[0])
