"""The queue played forward, in small worlds one can work out by hand."""

import pytest

from tests.builders import (
    a_booking,
    a_job,
    a_node,
    a_state,
    end,
    entry_of,
    move,
    requeue,
    run,
    start,
    submit,
)
from tgpu.core.model import lifecycle
from tgpu.core.model.events import BookingSet
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.rules import BackfillMode, PreemptionRules, Rules
from tgpu.core.policies import order_policy
from tgpu.core.policies.slots import ChoicePolicy
from tgpu.core.projection.queue_projection import RunLength, project
from tgpu.core.scheduling_config import CycleContext, SchedulingConfig
from tgpu.core.state.cluster_state import State

FIFO = CycleContext(SchedulingConfig(order_policy("fifo")))


def ten_seconds(_: Job, __: int) -> RunLength:
    return RunLength(10_000)


def starts(state: State, now: int = 0, context: CycleContext = FIFO) -> dict[JobId, int]:
    return project(state, now, context, ten_seconds, 100).starts


def on_one_gpu(*jobs: Job) -> State:
    return a_state(*jobs, nodes=[a_node(gpus=1)])


def test_jobs_start_one_after_the_other() -> None:
    state = on_one_gpu(a_job("a"), a_job("b"), a_job("c"))
    assert starts(state) == {"a": 0, "b": 10_000, "c": 20_000}


def test_what_runs_has_run_for_a_while_already() -> None:
    state = on_one_gpu(a_job("a"), a_job("b"))
    start(state, "a", 0)
    assert starts(state, now=4000) == {"b": 10_000}


def test_what_runs_longer_than_foreseen_is_about_to_end() -> None:
    state = on_one_gpu(a_job("a"), a_job("b"))
    start(state, "a", 0)
    assert starts(state, now=60_000) == {"b": 60_001}


def test_a_time_limit_ends_what_would_run_longer() -> None:
    state = on_one_gpu(a_job("a", time_limit_ms=3000), a_job("b"))
    assert starts(state) == {"a": 0, "b": 3000}


def pause(state: State, job_id: str, at: int) -> None:
    run(state, job_id)
    paused = lifecycle.pause(JobId(job_id), entry_of(state, job_id).progress, at)
    move(state, job_id, Move.PAUSE, paused, at)


def test_what_stands_still_goes_on_now_at_the_earliest_and_that_is_a_guess() -> None:
    state = on_one_gpu(a_job("a"), a_job("b"))
    start(state, "a", 0)
    pause(state, "a", at=4000)
    found = project(state, 60_000, FIFO, ten_seconds, 100)
    assert found.starts == {"b": 66_000}
    assert found.guessed_from == 66_000


def test_the_time_limit_of_what_stands_still_is_no_guess() -> None:
    state = on_one_gpu(a_job("a", time_limit_ms=62_000), a_job("b"))
    start(state, "a", 0)
    pause(state, "a", at=4000)
    found = project(state, 60_000, FIFO, ten_seconds, 100)
    assert (found.starts, found.guessed_from) == ({"b": 62_000}, None)


def test_a_pause_that_is_over_is_added_to_what_was_foreseen() -> None:
    state = on_one_gpu(a_job("a"), a_job("b"))
    start(state, "a", 0)
    pause(state, "a", at=4000)
    resumed = lifecycle.resume(JobId("a"), entry_of(state, "a").progress, 30_000)
    move(state, "a", Move.RESUME, resumed, 30_000)
    assert starts(state, now=31_000) == {"b": 36_000}


def test_a_job_after_another_starts_at_its_end() -> None:
    state = a_state(a_job("a"), a_job("b", after=("a",)))
    assert starts(state) == {"a": 0, "b": 10_000}


def test_a_back_off_is_waited_for() -> None:
    state = on_one_gpu(a_job("a"))
    start(state, "a", 0)
    requeue(state, "a", eligible_at=7000)
    assert starts(state) == {"a": 7000}


def test_a_job_that_fits_nowhere_never_starts() -> None:
    state = on_one_gpu(a_job("a"), a_job("large", gpus=2))
    found = project(state, 0, FIFO, ten_seconds, 100)
    assert found.starts == {"a": 0}
    assert found.is_over


def test_it_ends_with_its_steps() -> None:
    state = on_one_gpu(*(a_job(f"j{number}") for number in range(9)))
    found = project(state, 0, FIFO, ten_seconds, 3)
    assert len(found.starts) == 3
    assert not found.is_over
    assert found.reached == 20_000


def test_from_the_first_end_that_was_guessed_everything_is() -> None:
    def runs(job: Job, _: int) -> RunLength:
        return RunLength(10_000, is_known=job.job_id != "b")

    state = on_one_gpu(a_job("a"), a_job("b"), a_job("c"))
    assert project(state, 0, FIFO, runs, 100).guessed_from == 20_000


def test_a_policy_of_another_package_is_not_asked() -> None:
    def never(*_: object) -> None:
        raise AssertionError("asked")

    state = on_one_gpu(a_job("a"), a_job("b"))
    assert starts(state, context=CycleContext(SchedulingConfig(ChoicePolicy("theirs", never)))) == {
        "a": 0,
        "b": 10_000,
    }


def test_what_is_being_ended_is_gone_in_a_moment() -> None:
    state = on_one_gpu(a_job("a"), a_job("b"))
    start(state, "a", 0)
    run(state, "a")
    stopped = lifecycle.stop(JobId("a"), entry_of(state, "a").progress, "cancelled")
    move(state, "a", Move.STOP, stopped)
    assert starts(state) == {"b": 1}


def test_jobs_are_preempted_because_time_passes() -> None:
    """The newcomer had less GPU time: the other is preempted within a minute, before it ends."""

    def a_day(_: Job, __: int) -> RunLength:
        return RunLength(86_400_000)

    state = on_one_gpu(a_job("old"), a_job("new", submitted_at=600_000))
    start(state, "old", 0)
    run(state, "old")
    context = CycleContext(
        SchedulingConfig(order_policy("las"), Rules(preemption=PreemptionRules()))
    )
    found = project(state, 600_000, context, a_day, 50)
    assert found.starts[JobId("new")] <= 660_000


def test_of_a_long_queue_ends_that_lie_close_together_are_one_step() -> None:
    def about_an_hour(job: Job, _: int) -> RunLength:
        return RunLength(3_600_000 + int(job.job_id[1:]))

    jobs = [a_job(f"j{number:03}", submitted_at=number) for number in range(400)]
    found = project(a_state(*jobs, nodes=[a_node(gpus=8)]), 1000, FIFO, about_an_hour, 10_000)
    assert len(found.starts) == 400
    assert found.steps < 100
    last = found.starts[JobId("j399")] - 1000
    assert 49 * 3_600_000 <= last <= 49 * 3_600_000 * 65 // 64 + 400 * 49


def test_who_came_back_is_not_over_when_its_first_attempt_would_have_been() -> None:
    state = on_one_gpu(
        a_job("a"), a_job("urgent", priority=900, time_limit_ms=1000), a_job("z", submitted_at=1)
    )
    start(state, "a", 0)
    run(state, "a")
    rules = Rules(preemption=PreemptionRules())
    found = starts(
        state, now=4000, context=CycleContext(SchedulingConfig(order_policy("priority"), rules))
    )
    assert found == {"urgent": 4000, "a": 5000, "z": 15_000}


MINUTE = 60_000


def with_a_booking(*jobs: Job) -> State:
    """One GPU, booked for the first hour; unused for ten minutes it is given back."""
    state = on_one_gpu()
    booked = a_booking("r-1", 0, starts_at=0, ends_at=60 * MINUTE, unused_ms=10 * MINUTE)
    state.apply(BookingSet(0, booked))
    submit(state, *jobs)
    return state


@pytest.mark.parametrize("backfill", BackfillMode)
def test_who_waits_for_a_booking_that_nobody_uses_starts_when_it_is_given_back(
    backfill: BackfillMode,
) -> None:
    state = with_a_booking(a_job("a"))
    context = CycleContext(SchedulingConfig(order_policy("fifo"), Rules(backfill)))
    assert starts(state, context=context) == {"a": 10 * MINUTE}


def test_a_booking_that_a_job_ran_in_is_kept_to_its_end() -> None:
    state = with_a_booking(a_job("mine", booking="r-1"), a_job("other", submitted_at=1))
    assert starts(state) == {"mine": 0, "other": 60 * MINUTE}


def test_a_job_being_preempted_waits_again_and_is_not_over() -> None:
    state = on_one_gpu(a_job("low", priority=100), a_job("high", priority=900))
    start(state, "low", 0)
    run(state, "low")
    asked = lifecycle.ask_preemption(
        JobId("low"), entry_of(state, "low").progress, JobId("high"), ""
    )
    move(state, "low", Move.STOP, asked)
    assert starts(state) == {"high": 1, "low": 10_001}


def test_who_is_being_cancelled_takes_those_along_that_need_it() -> None:
    state = on_one_gpu(a_job("a"), a_job("b", after=("a",)), a_job("c", after=("a:any",)))
    start(state, "a", 0)
    run(state, "a")
    stopped = lifecycle.stop(JobId("a"), entry_of(state, "a").progress, "cancelled")
    move(state, "a", Move.STOP, stopped)
    assert starts(state) == {"c": 1}


def test_who_waits_for_one_that_is_given_up_starts_in_the_same_instant() -> None:
    state = on_one_gpu(a_job("a"), a_job("b", after=("a",)), a_job("c", after=("b:any",)))
    start(state, "a", 0)
    end(state, "a", JobState.FAILED)
    assert starts(state) == {"c": 0}


def test_what_is_sure_to_reach_its_time_limit_fails_there() -> None:
    state = on_one_gpu(a_job("a", time_limit_ms=3000), a_job("b", after=("a",)))
    assert starts(state) == {"a": 0}


def test_a_lease_ends_at_its_limit_and_that_is_no_failure() -> None:
    state = on_one_gpu(a_job("a", time_limit_ms=3000, lease=True), a_job("b", after=("a",)))
    assert starts(state) == {"a": 0, "b": 3000}


def test_a_job_is_preempted_as_soon_as_it_has_run_long_enough() -> None:
    state = on_one_gpu(a_job("low", priority=100), a_job("high", priority=900))
    start(state, "low", 0)
    run(state, "low")
    rules = Rules(preemption=PreemptionRules(min_run_ms=4000))
    found = starts(
        state, now=1000, context=CycleContext(SchedulingConfig(order_policy("priority"), rules))
    )
    assert found == {"high": 4000, "low": 14_000}
