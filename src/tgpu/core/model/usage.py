"""Usage: GPU time and ended jobs, counted from the moves of jobs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tgpu.core.model.ids import TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import PLACED, TERMINAL, JobState, Progress
from tgpu.core.model.units import GPU_HOUR


@dataclass(frozen=True, slots=True)
class GpuTimeUsage:
    """GPU time in GPU-milliseconds times thousandths: exact, and summed in any order."""

    gpu_millis_ms: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    def __add__(self, other: "GpuTimeUsage") -> "GpuTimeUsage":
        return GpuTimeUsage(
            self.gpu_millis_ms + other.gpu_millis_ms,
            self.completed + other.completed,
            self.failed + other.failed,
            self.cancelled + other.cancelled,
        )

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.cancelled

    @property
    def gpu_hours(self) -> float:
        """For people. No decision looks at it."""
        return self.gpu_millis_ms / GPU_HOUR


NO_USAGE: Final = GpuTimeUsage()


def usage_of(job: Job, before: Progress, after: Progress, at: int) -> GpuTimeUsage:
    """What one move adds: the attempt's GPU time when it gives its GPUs back, and the end."""
    spent = 0
    if before.state in PLACED and after.state not in PLACED and before.started_at is not None:
        spent = max(0, at - before.started_at) * job.request.gpu_millis
    ended = after.state in TERMINAL and before.state not in TERMINAL
    return GpuTimeUsage(
        spent,
        int(ended and after.state is JobState.COMPLETED),
        int(ended and after.state is JobState.FAILED),
        int(ended and after.state is JobState.CANCELLED),
    )


def total(
    parts: Iterable[tuple[TenantId, str, GpuTimeUsage]],
) -> dict[tuple[TenantId, str], GpuTimeUsage]:
    """Summed by tenant and queue, in the order in which they first stand."""
    sums: dict[tuple[TenantId, str], GpuTimeUsage] = {}
    for tenant_id, queue, usage in parts:
        key = (tenant_id, queue)
        sums[key] = sums.get(key, NO_USAGE) + usage
    return sums
