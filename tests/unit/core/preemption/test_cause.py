"""What a cause says to readers who may not see the job that others are preempted for."""

import pytest

from tgpu.core.preemption.cause import named_in, without_names

SENTENCES = [
    ("preempted for job x-1.2 (priority 900 over 500)", "x-1.2", "preempted for another job"),
    ("preempted for job x", "x", "preempted for another job"),
    (
        "preempted for job x, as the scheduling policy chose",
        "x",
        "preempted for another job, as the scheduling policy chose",
    ),
    (
        "preempted: quota of tenant t y reclaimed by job x",
        "x",
        "preempted for another job: lent quota is reclaimed",
    ),
    (
        "preempted: its GPUs are reserved: r-1",
        "r-1",
        "preempted: its GPUs are reserved for others",
    ),
]

# As journals and databases of earlier versions have them.
EARLIER_SENTENCES = [
    ("gives way to job x-1.2 (priority 900 over 500)", "x-1.2", "preempted for another job"),
    ("gives way to job x", "x", "preempted for another job"),
    (
        "gives way to job x, as the scheduling policy chose",
        "x",
        "preempted for another job, as the scheduling policy chose",
    ),
    (
        "gives way: quota of tenant t y reclaimed by job x",
        "x",
        "preempted for another job: lent quota is reclaimed",
    ),
    (
        "gives way: its GPUs are booked: r-1",
        "r-1",
        "preempted: its GPUs are reserved for others",
    ),
]


@pytest.mark.parametrize(("cause", "named", "shown"), SENTENCES + EARLIER_SENTENCES)
def test_every_sentence_about_preemption_can_be_shown_without_names(
    cause: str, named: str, shown: str
) -> None:
    assert named_in(cause) == named
    assert without_names(cause) == shown
    assert named_in(shown) is None


@pytest.mark.parametrize(
    "cause",
    [
        "exit code 1",
        "preempted",
        "gives way",
        "gives way to another job: lent quota is taken back",
        "gives way: its GPUs are reserved for others",
        "cancelled by its owner",
        "",
    ],
)
def test_other_causes_stay_as_they_are(cause: str) -> None:
    assert without_names(cause) == cause
    assert named_in(cause) is None
