"""What is told to whoever asks why a job waits holds when it is carried out."""

import asyncio
import copy
from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_copy, end_anyhow, entry_of, explain, snapshot, waiting_ids
from tests.property.every_rule_world import EveryRuleWorld
from tests.property.test_explain_is_true import remove_cause
from tgpu.core.explain.ahead import ahead_of
from tgpu.core.explain.answer import why
from tgpu.core.explain.blockers import ROOM
from tgpu.core.explain.changes import cheapest_change
from tgpu.core.explain.reason import explain_class, no_room
from tgpu.core.model.events import JobsSubmitted
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.job import JobClass
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.reasons import ReasonCode
from tgpu.core.state.cluster_state import State
from tgpu.service.identity.ownership import SEES_ALL
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
    world = EveryRuleWorld(Random(seed)).live()
    world.submit()
    before = everything(world.state)
    decided = world.decide()
    for entry in world.pending()[:6]:
        told = why(world.state, entry, world.now, world.decide)
        cheapest_change(world.state, entry, told, world.now, world.decide)
    assert everything(world.state) == before
    assert world.decide() == decided


@given(seed=seeds)
@settings(max_examples=40)
def test_the_offered_change_starts_the_job_when_it_is_carried_out(seed: int) -> None:
    world = EveryRuleWorld(Random(seed)).live()
    world.submit()
    for entry in world.pending()[:6]:
        told = why(world.state, entry, world.now, world.decide)
        change = cheapest_change(world.state, entry, told, world.now, world.decide)
        if change is None:
            continue
        state = a_copy(world.state)
        new = replace(change.job, job_id=JobId("z999"), submitted_at=world.now)
        end_anyhow(state, entry.job.job_id, JobState.CANCELLED)
        state.apply(JobsSubmitted(world.now, (new,)))
        assert "z999" in [start.job_id for start in world.decide(state=state).starts]


@given(seed=seeds)
@settings(max_examples=40)
def test_who_starts_with_the_next_cycle_is_told_so_and_nobody_else(seed: int) -> None:
    world = EveryRuleWorld(Random(seed)).live()
    world.submit()
    starting = {start.job_id for start in world.decide().starts}
    for entry in world.pending():
        told = why(world.state, entry, world.now, world.decide).reason.code
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
    world = EveryRuleWorld(Random(seed)).live()
    world.submit()
    for pending in world.pending()[:6]:
        state, job_id = a_copy(world.state), pending.job.job_id
        entry = entry_of(state, job_id)
        found = why(state, entry, world.now, world.decider(state)).reason
        if found.code in FOR_GOOD or not remove_cause(state, entry, found):
            continue
        if found.code in OF_OTHERS:
            now = why(state, entry, world.now, world.decider(state)).reason
        else:  # others may take what was made free: alone it would start, or wait for another thing
            now = explain(state, entry)
        assert now != found


@given(seed=seeds)
@settings(max_examples=40)
def test_the_end_of_those_in_its_way_makes_room(seed: int) -> None:
    world = EveryRuleWorld(Random(seed)).live()
    world.submit()
    for pending in world.pending()[:6]:
        state, job_id = a_copy(world.state), pending.job.job_id
        entry = entry_of(state, job_id)
        told = why(state, entry, world.now, world.decider(state))
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
    world = EveryRuleWorld(Random(seed)).live()
    world.submit()
    ledger = world.state.ledger
    everywhere = [ledger.node(node_id) for node_id in ledger.node_ids()]
    for entry in world.pending():
        job_class = entry.queue.job_class
        found = explain_class(ledger, job_class)
        if found.code in ROOM:
            assert found == no_room(ledger, everywhere, job_class)


class Gate:
    """One that refuses what it is told to."""

    name = "elsewhere"

    def __init__(self, refused: frozenset[JobClass]) -> None:
        self.refused = refused


def reasons_in(world: EveryRuleWorld) -> Reasons:
    """As the service has them, with its own rules."""
    classes = [queue.job_class for queue in world.state.waiting.all_classes()]
    refused = frozenset(one for one in classes if not world.rng.randrange(4))
    return Reasons(
        world.state, Gate(refused), world.policy, {}, lambda now, policy, seen: world.decide(seen)
    )


@given(seed=seeds, cycles=st.integers(0, 2))
@settings(max_examples=60)
def test_lists_say_what_why_says(seed: int, cycles: int) -> None:
    """Whether a cycle has seen the jobs already or not, and however they are asked for."""
    world = EveryRuleWorld(Random(seed)).live()
    world.submit()
    for _ in range(cycles):
        world.cycle()
    reasons, pending = reasons_in(world), world.pending()[:8]
    reasons.look([entry.job.job_id for entry in pending], world.now)
    before = everything(world.state)
    for entry in pending:
        job_id = entry.job.job_id
        listed = reasons.reason(job_id, world.now, SEES_ALL)
        told = asyncio.run(reasons.why(job_id, world.now, SEES_ALL))
        assert told is not None
        assert listed == told.reason
        # The same without the others of its page, and after something was recorded.
        reasons.forget()
        assert reasons.reason(job_id, world.now, SEES_ALL) == listed
        reasons.look([entry.job.job_id for entry in pending], world.now)
    assert everything(world.state) == before


@given(seed=seeds)
@settings(max_examples=30)
def test_who_is_listed_for_the_next_cycle_starts_with_it(seed: int) -> None:
    world = EveryRuleWorld(Random(seed)).live()
    world.submit()
    reasons = reasons_in(world)
    starts = {start.job_id for start in world.decide().starts}
    for entry in world.pending():
        found = reasons.reason(entry.job.job_id, world.now)
        assert found is not None
        if entry.job.job_id in starts:
            assert found.code in (ReasonCode.NEXT_CYCLE, ReasonCode.QUOTA_PROVIDER)


@given(seed=seeds)
@settings(max_examples=40)
def test_those_ahead_are_those_that_come_before_it_in_the_line(seed: int) -> None:
    world = EveryRuleWorld(Random(seed)).live()
    world.submit()
    in_line = set(waiting_ids(world.state))
    waiting = [entry for entry in world.pending() if entry.job.job_id in in_line]
    counts = Counter(
        ahead_of(world.state, entry, world.now, world.policy, {}).jobs for entry in waiting
    )
    assert sorted(counts) == list(range(len(waiting)))  # a total order: no two at one place


def test_the_first_few_ahead_come_in_order() -> None:
    world = EveryRuleWorld(Random(1)).live()
    for _ in range(5):
        world.submit()
    entries = world.pending()
    by_place = {ahead_of(world.state, e, world.now, world.policy, {}).jobs: e for e in entries}
    last = by_place[max(by_place)]
    first = ahead_of(world.state, last, world.now, world.policy, {}).first
    assert list(first) == [by_place[place].job.job_id for place in range(len(first))]
    assert entry_of(world.state, first[0])
