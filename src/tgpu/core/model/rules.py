"""The settings of the scheduling cycle, apart from the order of jobs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tgpu.core.model.job import Job

# How much longer a job that has run for so long will run, in ms, at this instant; None where
# nobody can tell. The same for all of a cycle.
Left = Callable[[Job, int, int], int | None]


class BackfillMode(StrEnum):
    """Which jobs may start before others that come first and cannot start yet."""

    GREEDY = "greedy"  # every job that fits
    EASY = "easy"  # those that do not delay the first of them
    CONSERVATIVE = "conservative"  # those that delay none of them
    STRICT = "strict"  # none


class PlacementRule(StrEnum):
    """Which of the places that would do a job gets."""

    FRAGMENTATION = "fragmentation"  # where the usual requests lose least; docs/adr/0012
    # The fullest node that does; gangs on no more nodes than they would need if all were free.
    CONSOLIDATED = "consolidated"


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    by_priority: bool = True
    reclaim: bool = True  # take back quota that was lent
    margin: int = 1  # how much more important than its victims a job must be
    min_run_ms: int = 0  # no job is preempted before it has run this long
    spare_ms: int = 0  # no job is preempted that ends by itself within this
    most_times: int = 3  # no job is preempted more often, unless the policy ranks jobs
    keeps_work: bool = False  # every job goes on where it was, not only who can be signalled
    restart_ms: int = 20_000  # what starting anew costs, beside what is lost
    # Who ends by itself is told by this too; None: by time limits alone.
    left: Left | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Rules:
    backfill: BackfillMode = BackfillMode.GREEDY
    depth: int = 100  # jobs that get a reservation under `conservative`
    # Jobs that waited this long are not overtaken on the GPUs they will get. None: no bound.
    hold_after_ms: int | None = None
    preemption: PreemptionRules | None = None  # None: no job is preempted


PLAIN: Final = Rules()
