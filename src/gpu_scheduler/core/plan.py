"""What a cycle decided. A plan changes nothing by itself."""

from dataclasses import dataclass

from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.node import Placement


@dataclass(frozen=True, slots=True)
class Start:
    job_id: JobId
    placement: Placement


@dataclass(frozen=True, slots=True)
class Plan:
    starts: tuple[Start, ...] = ()  # in the order in which they were decided
    expired: tuple[JobId, ...] = ()  # leases whose time is up
    doomed: tuple[tuple[JobId, str], ...] = ()  # jobs that can never start, with the cause

    def __bool__(self) -> bool:
        return bool(self.starts or self.expired or self.doomed)
