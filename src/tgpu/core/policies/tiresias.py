"""Tiresias (2D-LAS): two queues by GPU time had so far, first come, first served in each.

As published: once a minute all GPUs are given out in that order, by count alone; who is left over
gives way, and who comes in between waits for the next minute. Kept for comparison: `las` does more
with the same facts.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from tgpu.core.attained import FLOORS, TWO_QUEUES_AT
from tgpu.core.ids import JobId
from tgpu.core.job import JobClass
from tgpu.core.ledger import TenantUse
from tgpu.core.policy import Rank, SortKey, Standing
from tgpu.core.state import Entry, State
from tgpu.core.tenant import TenantQueue

_SECOND_QUEUE: Final = FLOORS.index(TWO_QUEUES_AT)


@dataclass(frozen=True, slots=True)
class TiresiasOrder:
    is_flat: ClassVar[bool] = True

    now: int
    round_ms: int

    def standing(self, use: TenantUse, user: str) -> Standing:
        return (0, 0)  # whoever has how much, the key alone decides

    def sort_key(
        self, job_class: JobClass, queue: TenantQueue | None, submitted_at: int, job_id: JobId
    ) -> SortKey:
        return (_which(job_class.level, job_class.priority), submitted_at, job_id)

    def rank(self, entry: Entry) -> Rank:
        job = entry.job
        return (_which(entry.had(self.now).level, job.priority), job.submitted_at)


def _which(level: int, priority: int) -> int:
    return (level >= _SECOND_QUEUE) - 2 * priority


@dataclass(frozen=True, slots=True)
class Tiresias:
    name: ClassVar[str] = "tiresias"

    round_ms: int = 60_000

    def at(self, state: State, now: int) -> TiresiasOrder:
        return TiresiasOrder(now, self.round_ms)
