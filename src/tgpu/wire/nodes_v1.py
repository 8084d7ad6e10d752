"""Nodes of `/api/v1`, and what agents say of theirs over gRPC."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, FailFast, Field

from tgpu.wire.bounds import WIDEST, BoundedModel, Text, Word

Amount = Annotated[int, Field(ge=0, le=WIDEST)]
# A machine has a few dozen GPUs at most; the rest is a mistake or worse.
_MOST_GPUS = 1024
_MOST_PROCESSES = 4096


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NodeProcessModel(BoundedModel):
    """A process that holds memory on a GPU."""

    pid: Amount
    user: Word | None = None
    command: Text | None = None
    memory_mb: Amount | None = None


class NodeGpuModel(BoundedModel):
    """A GPU and its readings; values that the driver does not report are null."""

    index: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    uuid: Word = ""
    name: Word = ""
    gpu_type: Word = ""
    memory_mb: Amount = 0
    memory_used_mb: Amount | None = None
    temperature_c: Annotated[int, Field(ge=-300, le=10_000)] | None = None
    utilisation_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    nvlink_group: Amount | None = None
    numa_node: Annotated[int, Field(ge=-1, le=WIDEST)] | None = None
    problem: Text | None = None
    processes: Annotated[list[NodeProcessModel], Field(max_length=_MOST_PROCESSES), FailFast()] = []


class NodeModel(_Model):
    """A machine: `local` is the service's own, `agent` one that reports through an agent."""

    name: str
    state: str  # "online" or "offline"
    source: str  # "local", "agent" or "engine": who tells of it
    address: str
    version: str
    provider: str
    simulated: bool
    problem: str | None
    cpu_cores: int
    memory_mb: int
    registered_at: str | None
    last_seen_at: str | None
    gpus: list[NodeGpuModel]
    labels: dict[str, str] = {}
    engine: str = ""  # what runs jobs there; empty: nothing does
    no_jobs: str | None = None  # why no job is placed there, where none is
    gpu_fence: str = ""  # of the local one: how jobs are kept from others' GPUs, or "no: …" and why


class NodeList(_Model):
    nodes: list[NodeModel]  # local ones first, then those of agents by name


class AgentRegistration(BoundedModel):
    name: Word = ""
    instance: Word = ""
    version: Word = ""
    provider: Word = ""
    simulated: bool = False
    cpu_cores: Amount = 0
    memory_mb: Amount = 0
    problem: Text | None = None
    gpus: Annotated[list[NodeGpuModel], Field(max_length=_MOST_GPUS), FailFast()] = []


class AgentReadings(BoundedModel):
    problem: Text | None = None
    gpus: Annotated[list[NodeGpuModel], Field(max_length=_MOST_GPUS), FailFast()] = []


class AgentBeat(BoundedModel):
    name: Word = ""
    instance: Word = ""
    readings: AgentReadings | None = None
