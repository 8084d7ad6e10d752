"""Nodes between the wire and the service, for REST and gRPC alike."""

from tgpu import __version__
from tgpu.api.rest.view import iso
from tgpu.core.errors import NotFound
from tgpu.core.units import CPU
from tgpu.devices.api import GpuProcess, GpuReading
from tgpu.service.agents import Agent, ProcessOwner, Readings, Registration
from tgpu.service.service import Service
from tgpu.wire.nodes_v1 import (
    AgentReadings,
    AgentRegistration,
    NodeGpuModel,
    NodeModel,
    NodeProcessModel,
)


def node_models(service: Service) -> list[NodeModel]:
    return [_local_model(service), *(_agent_model(service, a) for a in service.agents.all())]


def node_model(service: Service, name: str) -> NodeModel:
    if name == service.hardware.node_id:
        return _local_model(service)
    return _agent_model(service, service.agents.get(name))


def refuse_local(service: Service, name: str) -> None:
    """The service's own machine is no agent's."""
    if name == service.hardware.node_id:
        raise NotFound("agent", name, "this is the machine that the service itself runs on")


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
        registered_at=iso(known.registered_at),
        last_seen_at=None if agent.last_seen_at is None else iso(agent.last_seen_at),
        gpus=[_gpu_model(gpu, readings) for gpu in gpus],
    )


def _local_model(service: Service) -> NodeModel:
    snapshot = service.hardware.snapshot
    use = service.state.ledger.nodes.get(service.hardware.node_id)
    gpus = snapshot.gpus if snapshot is not None else ()
    return NodeModel(
        name=service.hardware.node_id,
        state="online",
        source="local",
        address="",
        version=__version__,
        provider=snapshot.provider if snapshot is not None else "",
        simulated=service.hardware.simulated,
        problem=snapshot.problem if snapshot is not None else None,
        cpu_cores=use.node.cpu_millis // CPU if use is not None else 0,
        memory_mb=use.node.mem_mib if use is not None else 0,
        registered_at=None,
        last_seen_at=None,
        gpus=[_gpu_model(gpu, Readings(gpus)) for gpu in gpus],
        labels=dict(use.node.labels) if use is not None else {},
        gpu_fence=service.fences.describe(),
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
