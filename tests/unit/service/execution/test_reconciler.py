"""Both ways, in disjoint buckets."""

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_job, a_state, entry_of, move, run, start
from tgpu.core.model import lifecycle
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import Move
from tgpu.engines.api import AttemptKey, Observation, Phase
from tgpu.service.execution.reconciler import AttemptBuckets, Belief, beliefs, classify

keys = st.builds(AttemptKey, st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 3))
believed_worlds = st.dictionaries(keys, st.sampled_from(Belief))
observed_worlds = st.dictionaries(keys, st.sampled_from(Phase)).map(
    lambda phases: {key: Observation(key, phase, 0) for key, phase in phases.items()}
)


def members(buckets: AttemptBuckets) -> list[AttemptKey]:
    return [
        *buckets.as_believed,
        *buckets.to_launch,
        *buckets.to_stop,
        *(seen.key for seen in buckets.changed),
        *buckets.lost,
        *buckets.missing,
        *buckets.orphans,
        *buckets.leftovers,
    ]


@given(believed_worlds, observed_worlds, st.booleans())
def test_every_attempt_of_either_side_is_in_exactly_one_bucket(
    believed: dict[AttemptKey, Belief], observed: dict[AttemptKey, Observation], forgets: bool
) -> None:
    found = members(classify(believed, observed, forgets=forgets))
    assert sorted(found) == sorted(believed.keys() | observed.keys())


@given(believed_worlds, observed_worlds)
def test_nothing_that_somebody_wants_is_ended(
    believed: dict[AttemptKey, Belief], observed: dict[AttemptKey, Observation]
) -> None:
    buckets = classify(believed, observed)
    wanted = {key for key, belief in believed.items() if belief is not Belief.STOPPING}
    assert wanted.isdisjoint([*buckets.to_stop, *buckets.orphans])


@given(believed_worlds, observed_worlds)
def test_an_end_is_never_dropped_before_it_is_on_record(
    believed: dict[AttemptKey, Belief], observed: dict[AttemptKey, Observation]
) -> None:
    buckets = classify(believed, observed)
    assert believed.keys().isdisjoint(buckets.leftovers)


@given(believed_worlds, observed_worlds)
def test_what_the_engine_knows_is_not_launched_again(
    believed: dict[AttemptKey, Belief], observed: dict[AttemptKey, Observation]
) -> None:
    assert observed.keys().isdisjoint(classify(believed, observed).to_launch)


@given(believed_worlds, observed_worlds)
def test_absence_is_believed_only_of_an_engine_that_never_forgets(
    believed: dict[AttemptKey, Belief], observed: dict[AttemptKey, Observation]
) -> None:
    absent = [key for key, belief in believed.items() if belief is Belief.RUNNING]
    absent = [key for key in absent if key not in observed]
    sure = classify(believed, observed)
    unsure = classify(believed, observed, forgets=True)
    assert (sure.lost, sure.missing) == (absent, [])
    assert (unsure.lost, unsure.missing) == ([], absent)


@given(believed_worlds, observed_worlds)
def test_what_is_only_taken_or_out_of_reach_is_never_recorded_as_a_change(
    believed: dict[AttemptKey, Belief], observed: dict[AttemptKey, Observation]
) -> None:
    changed = classify(believed, observed).changed
    assert not any(seen.phase in (Phase.TAKEN, Phase.UNREACHABLE) for seen in changed)


def test_the_books_tell_decided_running_and_stopping_apart_and_leave_leases_out() -> None:
    jobs = [a_job(name) for name in ("decided", "runs", "stops")]
    state = a_state(*jobs, a_job("leased", lease=True), a_job("waits"))
    for index, name in enumerate(("decided", "runs", "stops", "leased")):
        start(state, name, index)
    run(state, "runs")
    run(state, "stops")
    stopped = lifecycle.stop(JobId("stops"), entry_of(state, "stops").progress, "asked for")
    move(state, "stops", Move.STOP, stopped)
    assert beliefs(state.placed()) == {
        AttemptKey("decided", 1): Belief.DECIDED,
        AttemptKey("runs", 1): Belief.RUNNING,
        AttemptKey("stops", 1): Belief.STOPPING,
    }
