"""Nodes between the wire and the service, for REST and gRPC alike."""

from tgpu import __version__
from tgpu.core.errors import NotFound
from tgpu.core.model.node import Node
from tgpu.core.model.units import CPU
from tgpu.devices.api import GpuProcess, GpuReading
from tgpu.service.commands.gpu_choice import NO_ENGINE
from tgpu.service.hardware.agents import Agent, ProcessOwner, Readings, Registration
from tgpu.service.hardware.machines import hardware_of
from tgpu.service.hardware.node_hardware import Hardware
from tgpu.service.service import Service
from tgpu.text.instants import utc_millis_text
from tgpu.wire.nodes_v1 import (
    AgentReadings,
    AgentRegistration,
    NodeGpuModel,
    NodeModel,
    NodeProcessModel,
)


def node_models(service: Service) -> list[NodeModel]:
    own = [_own_model(service, hardware) for hardware in _without_agents(service)]
    return [*own, *(_agent_model(service, agent) for agent in service.agents.all())]


def node_model(service: Service, name: str) -> NodeModel:
    for hardware in _without_agents(service):
        if hardware.node_id == name:
            return _own_model(service, hardware)
    return _agent_model(service, service.agents.get(name))


def _without_agents(service: Service) -> list[Hardware]:
    """Those that are read from here, and those that the engine knows of."""
    return [*hardware_of(service.machines), *service.engine_nodes.all()]


def job_nodes(service: Service) -> list[Node]:
    """Those that jobs can be on: the service's own machine first, then by name."""
    own = service.hardware.node_id
    return sorted(service.reads.nodes(), key=lambda node: (node.node_id != own, node.node_id))


def is_online(service: Service, name: str) -> bool:
    """A machine that is read from here is; of others their agent must be heard."""
    agent = service.agents.find(name)
    return agent is None or service.agents.is_online(agent)


def refuse_own(service: Service, name: str) -> None:
    """The service's own machines are no agent's."""
    if any(hardware.node_id == name for hardware in _without_agents(service)):
        raise NotFound("agent", name, "this is a machine that the service itself looks after")


def registration_of(body: AgentRegistration, address: str) -> Registration:
    return Registration(
        name=body.name,
        version=body.version,
        provider=body.provider,
        simulated=body.simulated,
        cpu_cores=body.cpu_cores,
        memory_mib=body.memory_mb,
        gpus=tuple(_reading(gpu) for gpu in body.gpus),
        address=address,
    )


def readings_of(body: AgentReadings) -> Readings:
    owners = {
        process.pid: ProcessOwner(process.user, process.command)
        for gpu in body.gpus
        for process in gpu.processes
    }
    return Readings(tuple(_reading(gpu) for gpu in body.gpus), body.problem, owners)


def _reading(gpu: NodeGpuModel) -> GpuReading:
    return GpuReading(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        gpu_type=gpu.gpu_type,
        memory_mib=gpu.memory_mb,
        memory_used_mib=gpu.memory_used_mb,
        temperature_c=gpu.temperature_c,
        utilisation_percent=gpu.utilisation_percent,
        nvlink_group=gpu.nvlink_group,
        numa_node=gpu.numa_node,
        processes=tuple(GpuProcess(p.pid, p.memory_mb) for p in gpu.processes),
        problem=gpu.problem,
    )


def _agent_model(service: Service, agent: Agent) -> NodeModel:
    known, readings = agent.registration, agent.readings
    online = service.agents.is_online(agent)
    # Old measurements would mislead: a silent machine is shown with what it has, not how it was.
    gpus = readings.gpus if online else known.gpus
    return NodeModel(
        name=known.name,
        state="online" if online else "offline",
        source="agent",
        address=known.address,
        version=known.version,
        provider=known.provider,
        simulated=known.simulated,
        problem=readings.problem if online else None,
        cpu_cores=known.cpu_cores,
        memory_mb=known.memory_mib,
        registered_at=utc_millis_text(known.registered_at),
        last_seen_at=None if agent.last_seen_at is None else utc_millis_text(agent.last_seen_at),
        gpus=[_gpu_model(gpu, readings) for gpu in gpus],
        engine=service.engine_of(known.name),
        no_jobs=None if service.engine_of(known.name) else NO_ENGINE,
    )


def _own_model(service: Service, hardware: Hardware) -> NodeModel:
    snapshot = hardware.snapshot
    node = service.reads.known_node(hardware.node_id)
    gpus = snapshot.gpus if snapshot is not None else ()
    return NodeModel(
        name=hardware.node_id,
        state="online",
        source="engine" if service.engine_nodes.get(hardware.node_id) else "local",
        address="",
        version=__version__,
        provider=snapshot.provider if snapshot is not None else "",
        simulated=hardware.simulated,
        problem=snapshot.problem if snapshot is not None else None,
        cpu_cores=node.cpu_millis // CPU if node is not None else 0,
        memory_mb=node.mem_mib if node is not None else 0,
        registered_at=None,
        last_seen_at=None,
        gpus=[_gpu_model(gpu, Readings(gpus)) for gpu in gpus],
        labels=dict(node.labels) if node is not None else {},
        gpu_fence=service.fences.describe_for(hardware),
        engine=hardware.engine,
        no_jobs=None if hardware.engine else NO_ENGINE,
    )


def _gpu_model(gpu: GpuReading, readings: Readings) -> NodeGpuModel:
    # Measured here or checked when it came in: no need to do so with each answer.
    return NodeGpuModel.model_construct(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        gpu_type=gpu.gpu_type,
        memory_mb=gpu.memory_mib,
        memory_used_mb=gpu.memory_used_mib,
        temperature_c=gpu.temperature_c,
        utilisation_percent=gpu.utilisation_percent,
        nvlink_group=gpu.nvlink_group,
        numa_node=gpu.numa_node,
        problem=gpu.problem,
        processes=[_process_model(process, readings) for process in gpu.processes],
    )


def _process_model(process: GpuProcess, readings: Readings) -> NodeProcessModel:
    owner = readings.owners.get(process.pid, ProcessOwner())
    return NodeProcessModel.model_construct(
        pid=process.pid, user=owner.user, command=owner.command, memory_mb=process.memory_mib
    )
