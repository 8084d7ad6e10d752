"""What a cause says to those who may not know the job that others gave way to."""

import pytest

from tgpu.core.preemption_cause import named_in, without_names

SENTENCES = [
    ("gives way to job x-1.2 (priority 900 over 500)", "x-1.2", "gives way to another job"),
    ("gives way to job x", "x", "gives way to another job"),
    (
        "gives way to job x, as the scheduling policy chose",
        "x",
        "gives way to another job, as the scheduling policy chose",
    ),
    (
        "gives way: quota of tenant t y reclaimed by job x",
        "x",
        "gives way to another job: lent quota is taken back",
    ),
    (
        "gives way: its GPUs are booked: r-1",
        "r-1",
        "gives way: its GPUs are reserved for others",
    ),
]


@pytest.mark.parametrize(("cause", "named", "shown"), SENTENCES)
def test_every_sentence_about_giving_way_is_told_without_names(
    cause: str, named: str, shown: str
) -> None:
    assert named_in(cause) == named
    assert without_names(cause) == shown
    assert named_in(shown) is None


@pytest.mark.parametrize("cause", ["exit code 1", "gives way", "cancelled by its owner", ""])
def test_other_causes_stay_as_they_are(cause: str) -> None:
    assert without_names(cause) == cause
    assert named_in(cause) is None
