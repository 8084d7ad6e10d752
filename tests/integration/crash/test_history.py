"""The checker of histories finds what it is there to find."""

from dataclasses import replace
from typing import Any

import pytest

from tests.integration.crash.history import Promise, broken_promises, parse

GOOD = ["a 1 0 start 1.0", "a 1 0 end 2.0", "b 1 0,1 start 2.0", "b 1 0,1 end 4.0"]
PROMISES = {"a": Promise(0), "b": Promise(137, signal=9)}


def job(
    state: str, exit_code: int | None, signal: int | None = None, cause: str | None = None
) -> dict[str, Any]:
    return dict(state=state, exit_code=exit_code, signal=signal, attempt=1, cause=cause)


JOBS = {"a": job("completed", 0), "b": job("failed", 137, 9)}
LOST = job("failed", None, cause="its exit code was lost: both were killed")
CANCELLED = job("cancelled", 143)


def test_a_history_as_promised_has_no_faults() -> None:
    assert broken_promises(PROMISES, JOBS, parse(GOOD)) == []


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([*GOOD, "a 1 2 start 5", "a 1 2 end 6"], "attempt 1 of a did"),
        ([*GOOD, "a 2 2 start 5", "a 2 2 end 6"], "its newest is said to be 1"),
        (GOOD[2:], "a ran 0 times and not 1"),
        (GOOD[:3], "attempt 1 of b did ['start']"),
        (["a 1 0 start 1", "a 1 0 end 3", *GOOD[2:]], "GPU 0 was given to b while a had it"),
    ],
)
def test_faults_in_the_ledger_are_found(lines: list[str], fault: str) -> None:
    assert any(fault in found for found in broken_promises(PROMISES, JOBS, parse(lines)))


@pytest.mark.parametrize(
    ("jobs", "fault"),
    [
        ({"b": JOBS["b"]}, "a was acknowledged and does not exist"),
        (JOBS | {"a": job("failed", 1)}, "a ended as"),
        (JOBS | {"a": job("failed", 0)}, "a ended as"),
        (JOBS | {"a": CANCELLED}, "a ended as"),
        (JOBS | {"b": LOST}, "b ended as"),
    ],
)
def test_wrong_ends_are_found(jobs: dict[str, dict[str, Any]], fault: str) -> None:
    faults = broken_promises(PROMISES, jobs, parse(GOOD))
    assert any(found.startswith(fault) for found in faults)


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ({"asked_to_end": True}, ["as promised", "cancelled"]),
        ({"asked_to_end": True, "cancelled": True}, ["cancelled"]),
        ({"watched": False}, ["as promised", "lost"]),
    ],
)
def test_what_was_done_to_a_job_widens_its_promise(
    changes: dict[str, bool], allowed: list[str]
) -> None:
    promise = replace(Promise(3), **changes)
    ends = {"as promised": job("failed", 3), "cancelled": CANCELLED, "lost": LOST}
    assert [name for name, end in ends.items() if promise.allows(end)] == allowed
