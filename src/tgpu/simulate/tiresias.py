"""Tiresias (2D-LAS) as published, to compare with: services have `las` and `adaptive`.

Two queues by GPU time had so far, first come, first served in each.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from tgpu.core.accounting.attained import gpu_seconds
from tgpu.core.model.lifecycle import ran_ms
from tgpu.core.policies.slots import Rank
from tgpu.core.state.cluster_state import Entry
from tgpu.simulate.time_slicing import TimeSliced

# GPU seconds from which a job is in the second queue: the authors' number.
_SECOND_QUEUE_FROM: Final = 18_001


@dataclass(frozen=True)
class Tiresias(TimeSliced):
    name: ClassVar[str] = "tiresias"

    round_ms: int = 60_000

    def rank(self, entry: Entry, now: int) -> Rank:
        job = entry.job
        had = gpu_seconds(job.request.gpu_millis, ran_ms(entry.progress, now))
        return ((had >= _SECOND_QUEUE_FROM) - 2 * job.priority, job.submitted_at)
