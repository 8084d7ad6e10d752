"""What holds of every prediction, whatever was learned before."""

from hypothesis import given
from hypothesis import strategies as st

from tgpu.core.prediction.runtimes import Facts, History, template

FACTS = st.builds(
    Facts,
    st.sampled_from(["", "t1", "t2"]),
    st.sampled_from(["", "ada", "bob"]),
    st.sampled_from([500, 1000, 8000]),
    st.sampled_from(["", "A100"]),
    st.sampled_from(["", "train-#"]),
    st.sampled_from(["", "python train.py"]),
    st.none() | st.integers(1, 10**9),
)
DURATIONS = st.integers(0, 10**10)
INSTANTS = st.integers(0, 10**13)
LESSONS = st.lists(st.tuples(FACTS, DURATIONS, INSTANTS), max_size=300)


def taught(lessons, most_keys: int = 8192) -> History:
    history = History(most_keys)
    for facts, duration, at in lessons:
        history.learn(facts, duration, at)
    return history


@given(LESSONS, FACTS, st.integers(0, 10**10), INSTANTS)
def test_quantiles_are_in_order_and_never_before_what_has_passed(lessons, asked, elapsed, at):
    found = taught(lessons).predict(asked, elapsed, at)
    if found is None:
        assert not lessons
        assert asked.time_limit_ms is None
        return
    assert elapsed <= found.p50_ms <= found.p90_ms


@given(LESSONS, FACTS, st.integers(0, 10**10), INSTANTS)
def test_nothing_is_predicted_to_outlast_its_limit(lessons, asked, elapsed, at):
    found = taught(lessons).predict(asked, elapsed, at)
    if found is not None and asked.time_limit_ms is not None:
        assert found.p90_ms <= max(asked.time_limit_ms, elapsed)


@given(LESSONS, FACTS, INSTANTS)
def test_the_same_lessons_give_the_same_answer(lessons, asked, at):
    first, second = taught(lessons), taught(lessons)
    second.predict(asked, 17, at)  # being asked teaches nothing
    assert first.predict(asked, 0, at) == second.predict(asked, 0, at)


@given(LESSONS, FACTS, INSTANTS)
def test_without_having_run_a_prediction_is_a_run_time_that_was_seen(lessons, asked, at):
    found = taught(lessons).predict(asked, 0, at)
    if found is not None and lessons and asked.time_limit_ms is None:
        seen = {duration for _, duration, _ in lessons}
        assert {found.p50_ms, found.p90_ms} <= seen


@given(LESSONS, st.integers(6, 20))
def test_memory_is_bounded(lessons, most_keys):
    assert len(taught(lessons, most_keys)) <= most_keys


@given(st.text(max_size=300))
def test_a_template_of_a_template_is_itself(text):
    once = template(text)
    assert template(once) == once
