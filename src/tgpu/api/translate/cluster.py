"""The machines, GPUs and jobs in numbers."""

from tgpu import __version__
from tgpu.api.translate.nodes import is_online
from tgpu.core.model.lifecycle import PLACED, JobState
from tgpu.core.model.units import GPU
from tgpu.service.service import Service
from tgpu.wire.v1 import ClusterStatus


def cluster_model(service: Service, data_dir: str | None) -> ClusterStatus:
    state = service.state
    uses = list(state.ledger.nodes.values())
    agents = [a for a in service.agents.all() if a.registration.name not in state.ledger.nodes]
    snapshot = service.hardware.snapshot
    counts = {str(name): state.counts[name] for name in JobState}
    running = sum(state.counts[name] for name in PLACED)
    return ClusterStatus(
        total_nodes=len(uses) + len(agents),
        online_nodes=sum(is_online(service, use.node.node_id) for use in uses)
        + sum(map(service.agents.is_online, agents)),
        total_gpus=sum(len(use.node.gpus) for use in uses)
        + sum(len(agent.registration.gpus) for agent in agents),
        # Of those that jobs can have: the GPUs of agents are only shown.
        available_gpus=sum(use.free_millis(gpu) for use in uses for gpu in use.node.gpus) / GPU,
        used_gpus=sum(sum(use.gpu_millis.values()) for use in uses) / GPU,
        total_jobs=sum(counts.values()),
        running_jobs=running,
        pending_jobs=state.pending_count(),
        jobs_by_state=counts,
        simulated=service.hardware.simulated,
        provider=snapshot.provider if snapshot is not None else "",
        problem="; ".join(service.problems()) or None,
        engine=service.engine.name if service.engine is not None else "none",
        store=service.store.name,
        policy=service.settings.scheduling.policy.name,
        clock="manual" if service.clock.manual else "auto",
        version=__version__,
        uptime_seconds=max(0.0, service.uptime_seconds()),
        data_dir=data_dir,
    )
