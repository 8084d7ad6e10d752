"""What is read of the state, as values: none of them leads back to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.lifecycle import Progress
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.tenant import Tenant
from tgpu.core.model.units import GPU


class LiveJob(NamedTuple):
    """A job that is not over."""

    job: Job
    progress: Progress


class ClassCount(NamedTuple):
    """How many jobs of a class are not over, with GPUs or without."""

    job_class: JobClass
    jobs: int


class QueueCount(NamedTuple):
    """How many jobs of a queue are not over, and how many of those have GPUs."""

    live: int
    running: int

    @property
    def pending(self) -> int:
        return self.live - self.running


@dataclass(frozen=True, slots=True)
class NodeAllocation:
    """A node and what jobs have of its GPUs."""

    node: Node
    gpu_millis: Mapping[int, int]  # taken, by GPU index; a GPU that nobody has is not in it

    def taken_millis(self, gpu: Gpu) -> int:
        return self.gpu_millis.get(gpu.index, 0)

    def free_millis(self, gpu: Gpu) -> int:
        """What a new job could have of this GPU: nothing while it is lost, paused or hot."""
        return GPU - self.taken_millis(gpu) if gpu.is_usable else 0


@dataclass(frozen=True, slots=True)
class TenantAllocation:
    """A tenant and what its jobs have."""

    tenant: Tenant
    jobs: int
    gpu_millis: int
    gpu_millis_by_type: Mapping[str, int]
    gpu_mem_mib: int
    cpu_millis: int
    mem_mib: int
    borrowed_millis: int  # beyond its own quota, from its cohort
    lent_millis: int  # of its unused quota, to others of its cohort
