"""When processes that are not ours keep a GPU from new jobs, and when they no longer do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.core.hardware.external_use import (
    ExternalUse,
    ExternalUseRules,
    ExternalUseWatch,
    watch_external_use,
)

RULES = ExternalUseRules(memory_millis=800, load_millis=800, quiet_ms=30_000)
FREE = ExternalUseWatch()
TAKEN = ExternalUseWatch(taken=True, pids=(7,))


def a_use(**fields: object) -> ExternalUse:
    return ExternalUse(**{"memory_mib": 1000, "pids": (7,), **fields})  # type: ignore[arg-type] # facts by name


@pytest.mark.parametrize(
    ("use", "taken"),
    [
        (a_use(held_mib=800), True),
        (a_use(held_mib=799), False),
        (a_use(load_percent=80), True),
        (a_use(load_percent=79), False),
        (a_use(held_mib=100, used_mib=900), True),
        (a_use(held_mib=100, used_mib=900, ours=True), False),
        (a_use(busy_percent=95), True),
        (a_use(busy_percent=95, ours=True), False),
        (a_use(held_mib=800, ours=True), True),
        (a_use(pids=()), False),
        (a_use(memory_mib=0, held_mib=10), False),
    ],
)
def test_a_gpu_is_taken_from_a_threshold_on(use: ExternalUse, taken: bool) -> None:
    assert watch_external_use(FREE, use, 0, RULES).taken is taken


def test_a_load_that_our_own_job_left_behind_is_not_foreign() -> None:
    after_the_job = watch_external_use(
        ExternalUseWatch(ours=True), a_use(pids=(), busy_percent=99), 0, RULES
    )
    assert not after_the_job.taken
    assert watch_external_use(after_the_job, a_use(pids=(), busy_percent=99), 5, RULES).taken


def test_memory_just_below_the_threshold_does_not_make_it_flap() -> None:
    assert watch_external_use(TAKEN, a_use(held_mib=750), 0, RULES).taken
    assert not watch_external_use(TAKEN, a_use(pids=(), held_mib=0), 0, RULES).taken


def test_a_load_must_stay_low_for_a_while() -> None:
    resting = watch_external_use(TAKEN, a_use(load_percent=0), 0, RULES)
    assert resting.taken
    assert watch_external_use(resting, a_use(load_percent=0), 29_999, RULES).taken
    again = watch_external_use(resting, a_use(load_percent=75), 29_999, RULES)
    assert watch_external_use(again, a_use(load_percent=0), 30_000, RULES).taken
    assert not watch_external_use(resting, a_use(load_percent=0), 30_000, RULES).taken


def test_nobody_there_any_more_frees_it_at_once() -> None:
    assert not watch_external_use(TAKEN, a_use(pids=(), used_mib=0, busy_percent=0), 0, RULES).taken


amounts = st.one_of(st.none(), st.integers(0, 1000))
percents = st.one_of(st.none(), st.integers(0, 100))


@given(amounts, percents, st.booleans(), amounts, percents, st.booleans())
def test_a_gpu_in_use_is_never_freed_by_having_been_taken(
    held: int | None, load: int | None, ours: bool, used: int | None, busy: int | None, before: bool
) -> None:
    use = a_use(held_mib=held, load_percent=load, ours=ours, used_mib=used, busy_percent=busy)
    if watch_external_use(FREE, use, 0, RULES).taken:
        assert watch_external_use(ExternalUseWatch(taken=before), use, 0, RULES).taken
