"""Deadlines and wait targets: how urgent they make a job, and when they are missed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.builders import a_job, a_queue
from tgpu.core.accounting.sla import (
    MOST_URGENT,
    Promise,
    broken_by,
    missed_deadline,
    missed_wait_target,
    urgency,
)
from tgpu.core.model.job import class_of
from tgpu.core.model.lifecycle import PENDING, JobState, Move, Progress

DEADLINE = class_of(a_job(deadline_at=10_000))
LIMITED = class_of(a_job(deadline_at=10_000, time_limit_ms=6000))
NIGHT = a_queue("night", wait_target_ms=2000)


@pytest.mark.parametrize(
    ("now", "points"),
    [(-5, 0), (0, 0), (1, 0), (10, 1), (5000, 500), (9999, 999), (10_000, 1000), (99_999, 1000)],
)
def test_a_deadline_raises_evenly_until_it_is_there(now: int, points: int) -> None:
    assert urgency(DEADLINE, None, 0, now) == points


def test_a_time_limit_brings_the_latest_start_forward() -> None:
    assert urgency(LIMITED, None, 0, 2000) == 500
    assert urgency(LIMITED, None, 0, 4000) == MOST_URGENT


def test_a_wait_target_raises_from_submission_on() -> None:
    job_class = class_of(a_job())
    assert urgency(job_class, NIGHT, 500, 1500) == 500
    assert urgency(job_class, NIGHT, 500, 2500) == MOST_URGENT


def test_of_both_the_more_urgent_counts() -> None:
    assert urgency(DEADLINE, NIGHT, 0, 1000) == 500
    assert urgency(DEADLINE, replace(NIGHT, wait_target_ms=1_000_000), 0, 1000) == 100


def test_who_has_neither_is_never_urgent() -> None:
    assert urgency(class_of(a_job()), replace(NIGHT, wait_target_ms=None), 0, 10**9) == 0


@given(
    first=st.integers(-5000, 5000),
    later=st.integers(0, 5000),
    now=st.integers(-5000, 12_000),
    deadline_at=st.none() | st.integers(-6000, 12_000),
    limit=st.none() | st.integers(1, 9000),
    target=st.none() | st.integers(0, 9000),
)
def test_a_later_submission_of_a_class_is_never_more_urgent(
    first: int,
    later: int,
    now: int,
    deadline_at: int | None,
    limit: int | None,
    target: int | None,
) -> None:
    job_class = class_of(a_job(deadline_at=deadline_at, time_limit_ms=limit))
    queue = replace(NIGHT, wait_target_ms=target)
    older = urgency(job_class, queue, first, now)
    assert urgency(job_class, queue, first + later, now) <= older <= MOST_URGENT


@pytest.mark.parametrize(("ended_at", "missed"), [(9_999, False), (10_000, False), (10_001, True)])
def test_a_deadline_is_missed_by_being_over_after_it(ended_at: int, missed: bool) -> None:
    over = Progress(JobState.COMPLETED, ended_at=ended_at)
    assert missed_deadline(a_job(deadline_at=10_000), over) is missed
    assert not missed_deadline(a_job(), over)


def test_a_job_that_is_not_over_has_missed_no_deadline() -> None:
    assert not missed_deadline(a_job(deadline_at=1), PENDING)


def test_a_wait_target_is_missed_by_a_late_first_start() -> None:
    job = a_job(submitted_at=500)
    late = Progress(JobState.SCHEDULED, attempt=1, started_at=2501)
    assert missed_wait_target(NIGHT, job, late)
    assert not missed_wait_target(NIGHT, job, structs.replace(late, started_at=2500))
    assert not missed_wait_target(NIGHT, job, structs.replace(late, attempt=2))
    assert not missed_wait_target(None, job, late)
    assert not missed_wait_target(NIGHT, job, PENDING)


def test_only_the_move_that_breaks_a_promise_is_told() -> None:
    job = a_job(deadline_at=3000)
    late = Progress(JobState.SCHEDULED, attempt=1, started_at=2501)
    assert broken_by(Move.START, NIGHT, job, late) is Promise.WAIT_TARGET
    assert broken_by(Move.RUN, NIGHT, job, late) is None
    over = structs.replace(late, state=JobState.FAILED, ended_at=4000)
    assert broken_by(Move.FAIL, NIGHT, job, over) is Promise.DEADLINE
