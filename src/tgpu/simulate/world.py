"""What a simulation is given: jobs with their true durations, and the nodes they run on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tgpu.core.model.job import Job
from tgpu.core.model.node import Node
from tgpu.core.model.tenant import Tenant

ONE_POOL: Final = ""  # the name of the partition of clusters that have none

PARTITION_SEPARATOR: Final = "@"


class Arrival(NamedTuple):
    """A job, when it comes (`job.submitted_at`) and how long it really runs."""

    job: Job
    run_ms: int
    partition: str = ONE_POOL  # jobs of one never run in another


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes by partition. Each partition is scheduled by itself, as a cluster of its own."""

    partitions: Mapping[str, tuple[Node, ...]]
    tenants: tuple[Tenant, ...] = field(default=())  # others are made as jobs name them

    def gpus(self) -> int:
        return sum(len(node.gpus) for nodes in self.partitions.values() for node in nodes)

    def nodes(self) -> int:
        return sum(map(len, self.partitions.values()))
