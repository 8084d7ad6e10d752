"""Nodes and their GPUs, and placements of jobs on them."""

from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from tgpu.core.model.heat import Heat
from tgpu.core.model.ids import NodeId


@dataclass(frozen=True, slots=True)
class Gpu:
    index: int
    uuid: str
    gpu_type: str
    mem_mib: int
    nvlink_group: int | None = None
    numa_node: int | None = None
    slice_of: int | None = None  # a MIG slice: the index of the GPU it is cut from
    problem: str | None = None  # the hardware's word: lost, …; takes no new job
    paused: str | None = None  # an operator's word, with the reason; takes no new job
    foreign: str | None = None  # processes that are not ours use it; takes no new job
    heat: Heat = Heat.COOL

    @property
    def is_usable(self) -> bool:
        return (
            self.problem is None
            and self.paused is None
            and self.foreign is None
            and self.heat is not Heat.HOT
        )


@dataclass(frozen=True, slots=True)
class Node:
    node_id: NodeId
    gpus: tuple[Gpu, ...]  # by index, in whatever order they were found
    cpu_millis: int
    mem_mib: int
    simulated: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    engine: str = "local"  # what runs jobs there; "": nothing does, it is only shown

    def __post_init__(self) -> None:
        # Placement takes the first of equals, so the order must not depend on the driver's.
        object.__setattr__(self, "gpus", tuple(sorted(self.gpus, key=lambda gpu: gpu.index)))


def gone(node_id: NodeId) -> Node:
    """What is left of a node that nobody should know of any more."""
    return Node(node_id, (), 0, 0, engine="")


class GpuName(NamedTuple):
    """One GPU of all there are. How it is written: `text/gpu_names.py`."""

    node_id: NodeId
    gpu_index: int


GpuChoice = int | GpuName  # as people name one: by its index alone, or with its node


class Share(Struct, frozen=True, gc=False):
    """A part of a GPU, or all of it (1000)."""

    gpu_index: int
    millis: int


class Part(NamedTuple):
    """Where one worker of a job is."""

    node_id: NodeId
    shares: tuple[Share, ...]  # by GPU index


class Placement(Struct, frozen=True, gc=False):
    """Where a job is: its first worker's place, and for gangs those of the others, by rank."""

    node_id: NodeId
    gpu_type: str
    shares: tuple[Share, ...]  # by GPU index
    others: tuple[Part, ...] = ()

    def parts(self) -> tuple[Part, ...]:
        """One for each worker, by rank."""
        first = Part(self.node_id, self.shares)
        return (first, *self.others) if self.others else (first,)

    def gpus(self) -> tuple[GpuName, ...]:
        """Of all its workers: by node in the order of ranks, then by index, each once."""
        if not self.others:
            return tuple([GpuName(self.node_id, share.gpu_index) for share in self.shares])
        by_node: dict[NodeId, set[int]] = {}
        for node_id, shares in self.parts():
            by_node.setdefault(node_id, set()).update(share.gpu_index for share in shares)
        return tuple(
            GpuName(node_id, index) for node_id in by_node for index in sorted(by_node[node_id])
        )

    def first_indexes(self) -> list[int]:
        """On the first worker's node, of all workers there."""
        if not self.others:
            return [share.gpu_index for share in self.shares]
        return [index for node_id, index in self.gpus() if node_id == self.node_id]
