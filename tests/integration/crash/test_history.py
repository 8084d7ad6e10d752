"""The checker of histories finds what it is there to find."""

from typing import Any

import pytest

from tests.integration.crash.history import Line, Promise, broken_promises, parse

GOOD = ["a 1 0 start 10", "a 1 0 end 20", "b 1 0,1 start 30", "b 1 0,1 end 40"]
PROMISES = {"a": Promise(0), "b": Promise(137, signal=9)}


def job(state: str, exit_code: int | None, signal: int | None = None) -> dict[str, Any]:
    return dict(state=state, exit_code=exit_code, signal=signal, attempt=1, cause=None)


JOBS = {"a": job("completed", 0), "b": job("failed", 137, 9)}


def test_a_history_as_promised_has_no_faults() -> None:
    assert broken_promises(PROMISES, JOBS, parse(GOOD)) == []


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([*GOOD, "a 1 2 start 50", "a 1 2 end 60"], "attempt 1 of a did"),
        ([*GOOD, "a 2 2 start 50", "a 2 2 end 60"], "its newest is said to be 1"),
        (GOOD[2:], "a ran 0 times and not 1"),
        (GOOD[:3], "attempt 1 of b did ['start']"),
        (["a 1 0 start 10", "a 1 0 end 35", *GOOD[2:]], "GPU 0 was given to b while a had it"),
    ],
)
def test_faults_in_the_ledger_are_found(lines: list[str], fault: str) -> None:
    assert any(fault in found for found in broken_promises(PROMISES, JOBS, parse(lines)))


@pytest.mark.parametrize(
    ("jobs", "fault"),
    [
        ({"b": JOBS["b"]}, "a was acknowledged and does not exist"),
        (JOBS | {"a": job("failed", 1)}, "a ended as"),
        (JOBS | {"b": job("failed", None)}, "b ended as"),
    ],
)
def test_wrong_ends_are_found(jobs: dict[str, dict[str, Any]], fault: str) -> None:
    ledger: list[Line] = parse(GOOD)
    assert any(found.startswith(fault) for found in broken_promises(PROMISES, jobs, ledger))
