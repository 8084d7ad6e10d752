"""Which errors drain a GPU, how it comes back, and which job they explain."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.core.hardware.health import (
    APPLICATION_XIDS,
    FATAL_XIDS,
    HEALTHY,
    GpuHealth,
    Signs,
    examine,
    hardware_cause,
    problem_of,
    vouched,
)
from tgpu.core.model.ids import NodeId
from tgpu.core.model.node import Part, Placement, Share

PROBATION = 600_000
WELL = Signs(ecc_uncorrected=0, remap_pending=False, remap_failed=False)


def see(health: GpuHealth, signs: Signs, now: int) -> GpuHealth:
    return examine(health, signs, now, PROBATION)


def problem(health: GpuHealth) -> str | None:
    return problem_of(health, PROBATION)


def with_xids(*xids: int) -> Signs:
    return replace(WELL, xids=xids, xid_count=len(xids))


@pytest.mark.parametrize(
    ("signs", "sentence"),
    [
        (with_xids(79), "Xid 79, fell off the bus"),
        (with_xids(31, 48, 45), "Xid 48, memory error that could not be corrected"),
        (replace(WELL, ecc_uncorrected=2), "memory errors that could not be corrected: 2"),
        (replace(WELL, remap_pending=True), "memory rows wait to be remapped"),
        (replace(WELL, remap_failed=True), "memory rows could not be remapped"),
        (Signs(lost="lost: GPU is lost"), "lost: GPU is lost"),
        (
            replace(with_xids(79), lost="lost: GPU is lost"),
            "Xid 79, fell off the bus; lost: GPU is lost",
        ),
    ],
)
def test_an_error_of_the_hardware_drains_a_gpu(signs: Signs, sentence: str) -> None:
    found = problem(see(HEALTHY, signs, 1000))
    assert found is not None
    assert found.startswith(sentence)


@pytest.mark.parametrize("xid", [13, 31, 43, 45])
def test_an_error_of_the_program_drains_nothing(xid: int) -> None:
    assert problem(see(HEALTHY, with_xids(xid), 0)) is None


def test_no_error_is_both_the_programs_and_the_hardwares() -> None:
    assert FATAL_XIDS.keys().isdisjoint(APPLICATION_XIDS)


def test_a_sound_gpu_is_left_alone() -> None:
    assert problem(see(HEALTHY, WELL, 0)) is None
    assert problem(see(HEALTHY, Signs(), 0)) is None  # a driver that tells nothing of it


def test_after_an_error_it_is_on_probation_and_then_back() -> None:
    ill = see(HEALTHY, with_xids(79), 0)
    first_clean = see(ill, with_xids(79), 5_000)  # the same error, not another
    assert problem(first_clean) == (
        "on probation until 1970-01-01T00:10:05Z after: Xid 79, fell off the bus"
    )
    assert problem(see(first_clean, with_xids(79), 604_999)) is not None
    assert problem(see(first_clean, with_xids(79), 605_000)) is None


def test_an_error_on_probation_begins_it_anew() -> None:
    clean = see(see(HEALTHY, with_xids(79), 0), with_xids(79), 5_000)
    again = see(clean, with_xids(79, 79), 500_000)
    assert problem(again) == "Xid 79, fell off the bus"
    assert problem(see(see(again, with_xids(79, 79), 505_000), with_xids(79, 79), 1_000_000))


def test_a_fault_that_lasts_keeps_its_instant() -> None:
    lost = Signs(lost="lost: GPU is lost")
    first = see(HEALTHY, replace(lost, xids=(79,), xid_count=1), 100)
    later = see(first, replace(lost, xids=(79,), xid_count=1), 9_000)
    assert (later.fault, later.fault_at) == (first.fault, 100)


def test_rows_that_wait_to_be_remapped_drain_until_they_are() -> None:
    waiting = replace(WELL, remap_pending=True)
    ill = see(see(HEALTHY, waiting, 0), waiting, 10 * PROBATION)
    assert "must be reset" in (problem(ill) or "")
    assert "on probation" in (problem(see(ill, WELL, 10 * PROBATION + 1)) or "")


def test_an_operator_may_vouch_for_it() -> None:
    ill = see(HEALTHY, replace(WELL, ecc_uncorrected=2), 0)
    back = vouched(ill)
    assert problem(back) is None
    assert problem(see(back, replace(WELL, ecc_uncorrected=2), 1)) is None
    assert problem(see(back, replace(WELL, ecc_uncorrected=3), 1)) is not None


def test_a_fault_that_is_still_there_shows_again_whoever_vouched() -> None:
    failed = replace(WELL, remap_failed=True)
    assert problem(see(vouched(see(HEALTHY, failed, 0)), failed, 1)) is not None


def test_a_reader_that_began_anew_is_no_new_error() -> None:
    known = replace(HEALTHY, xid_seen=3)
    assert problem(see(known, WELL, 0)) is None
    assert problem(see(see(known, WELL, 0), with_xids(79), 1)) is not None


def test_without_probation_it_is_back_with_the_next_clean_reading() -> None:
    ill = examine(HEALTHY, Signs(lost="lost"), 0, 0)
    assert problem_of(ill, 0) == "lost"
    assert problem_of(examine(ill, WELL, 1, 0), 0) is None


def test_the_cause_of_a_failed_job_is_the_fault_of_its_gpu() -> None:
    healths = {3: see(HEALTHY, with_xids(79), 500)}
    here, there = NodeId("n0"), NodeId("n1")
    placement = Placement(here, "A100", (Share(2, 1000), Share(3, 1000)))
    assert hardware_cause(placement, 400, here, healths) == "GPU 3: Xid 79, fell off the bus"
    assert hardware_cause(placement, 501, here, healths) is None  # it began after that
    beside = Placement(here, "A100", (Share(2, 1000),))
    assert hardware_cause(beside, 400, here, healths) is None
    assert hardware_cause(placement, 400, there, healths) is None
    gang = Placement(there, "A100", (Share(0, 1000),), (Part(here, (Share(3, 1000),)),))
    assert hardware_cause(gang, 400, here, healths) == "GPU 3: Xid 79, fell off the bus"


readings = st.builds(
    Signs,
    lost=st.sampled_from([None, None, "lost"]),
    ecc_uncorrected=st.one_of(st.none(), st.integers(0, 3)),
    remap_pending=st.booleans(),
    remap_failed=st.booleans(),
)


@given(st.lists(st.tuples(readings, st.integers(1, PROBATION)), max_size=20))
def test_no_gpu_returns_before_it_was_clean_for_the_whole_probation(
    story: list[tuple[Signs, int]],
) -> None:
    health, now = HEALTHY, 0
    clean_since: int | None = None
    for signs, passed in story:
        now += passed
        before = health
        health = see(health, signs, now)
        if health.present:
            clean_since = None
        elif clean_since is None:
            clean_since = now
        if problem(before) is not None and problem(health) is None:
            assert clean_since is not None
            assert now - clean_since >= PROBATION
