"""GPU time in steps: where they begin, and when a running job comes to the next."""

import pytest

from tests.builders import a_job, a_state, entry_of, move, run, start, submit
from tgpu.core.accounting.attained import FLOORS, doublings, gpu_seconds, least_ms, level_of
from tgpu.core.check import check_invariants
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import Move, ask_preemption, preempt
from tgpu.core.model.lifecycle import requeue as requeued


@pytest.mark.parametrize(
    ("gpus", "seconds", "doubled"),
    [(1, 0, 0), (1, 1, 1), (1, 2, 2), (1, 3, 2), (8, 1, 4), (1, 18_000, 15), (1, 18_001, 15)],
)
def test_each_step_takes_twice_the_gpu_time(gpus, seconds, doubled) -> None:
    assert doublings(level_of(gpus * 1000, seconds * 1000)) == doubled


def test_one_step_more_begins_after_18_000_gpu_seconds() -> None:
    assert level_of(1000, 18_000_000) + 1 == level_of(1000, 18_001_000)


def test_parts_of_gpus_count_as_parts() -> None:
    assert gpu_seconds(250, 8000) == 2


@pytest.mark.parametrize("level", range(len(FLOORS) - 1))
def test_who_ran_the_least_of_a_step_is_on_it(level) -> None:
    assert level_of(1000, least_ms(level, 1000)) == level
    assert level_of(1000, least_ms(level + 1, 1000) - 1) == level


def test_what_a_job_had_is_worked_out_anew_when_its_step_ends() -> None:
    state = a_state(a_job("a", gpus=2))
    start(state, "a", 0, 1, at=1000)
    run(state, "a", at=1000)
    entry = entry_of(state, "a")
    first = entry.attained(1000)
    assert (first.level, first.until, first.on) == (0, 1500, (("n0", 2000),))
    assert entry.attained(1499) is first
    assert (entry.attained(1500).doublings, entry.attained(1500).until) == (1, 2000)
    assert entry.attained(1000).level == 0  # also when somebody looks back


def test_earlier_attempts_count_and_make_another_class() -> None:
    state = a_state(a_job("a", gpus=2))
    start(state, "a", 0, 1, at=0)
    run(state, "a", at=0)
    submit(state, a_job("b", gpus=2))
    gone = preempt(
        JobId("a"),
        ask_preemption(JobId("a"), entry_of(state, "a").progress, JobId("b"), "x"),
        4000,
        2000,
    )
    move(state, "a", Move.PREEMPT, gone, at=4000)
    move(state, "a", Move.REQUEUE, requeued(JobId("a"), gone, 4000, "x", counts=False), at=4000)
    assert entry_of(state, "a").progress.ran_ms == 4000
    assert entry_of(state, "a").queue.job_class.level == level_of(2000, 4000)
    assert entry_of(state, "b").queue.job_class.level == 0
    check_invariants(state)


def test_a_run_that_failed_counts_too() -> None:
    state = a_state(a_job("a"))
    start(state, "a", 0, at=1000)
    run(state, "a", at=1000)
    again = requeued(JobId("a"), entry_of(state, "a").progress, 9000, "x", counts=True, at=6000)
    assert again.ran_ms == 5000
