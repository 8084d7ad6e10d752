"""The result of a simulation: one outcome per job, and samples of the cluster over time."""

from dataclasses import dataclass
from typing import NamedTuple

from tgpu.core.model.lifecycle import JobState
from tgpu.simulate.world import Arrival

Span = tuple[int, int]  # from, until


class JobOutcome(NamedTuple):
    """What became of one job; instants in milliseconds of the trace."""

    arrival: Arrival
    state: JobState
    started_at: int | None  # the first time; None: it never did
    ended_at: int | None  # None: it waits for ever
    preemptions: int = 0
    earlier: tuple[Span, ...] = ()  # when it ran before it was preempted
    last_start: int | None = None

    @property
    def jct_ms(self) -> int:
        return 0 if self.ended_at is None else self.ended_at - self.arrival.job.submitted_at

    @property
    def wait_ms(self) -> int:
        """All the time in which it did not get on: in the queue, and what preemption cost it."""
        return self.jct_ms - self.arrival.run_ms

    def spans(self) -> tuple[Span, ...]:
        """When it had its GPUs."""
        if self.last_start is None or self.ended_at is None:
            return self.earlier
        return (*self.earlier, (self.last_start, self.ended_at))


class Sample(NamedTuple):
    """The cluster at one instant, after its cycle."""

    at: int
    used_gpu_millis: int
    waiting: int
    # Free GPU capacity that the usual requests cannot use, in thousandths of a GPU.
    unusable_gpu_millis: int

    def plus(self, other: "Sample") -> "Sample":
        return Sample(
            self.at,
            self.used_gpu_millis + other.used_gpu_millis,
            self.waiting + other.waiting,
            self.unusable_gpu_millis + other.unusable_gpu_millis,
        )


@dataclass(frozen=True, slots=True)
class Result:
    outcomes: tuple[JobOutcome, ...]  # in the order of arrival
    samples: tuple[Sample, ...]  # in the order of time
    cycles: int

    @property
    def unfinished(self) -> int:
        return sum(outcome.ended_at is None for outcome in self.outcomes)
