"""The machines, GPUs and jobs in numbers."""

from tgpu import __version__
from tgpu.api.translate.nodes import is_online
from tgpu.core.model.lifecycle import PLACED
from tgpu.core.model.units import GPU
from tgpu.service.service import Service
from tgpu.wire.v1 import ClusterStatus


def cluster_model(service: Service, data_dir: str | None) -> ClusterStatus:
    reads = service.reads
    held = reads.node_allocations()
    agents = [a for a in service.agents.all() if not reads.has_node(a.registration.name)]
    snapshot = service.hardware.snapshot
    counts = reads.job_counts()
    return ClusterStatus(
        total_nodes=len(held) + len(agents),
        online_nodes=sum(is_online(service, each.node.node_id) for each in held)
        + sum(map(service.agents.is_online, agents)),
        total_gpus=sum(len(each.node.gpus) for each in held)
        + sum(len(agent.registration.gpus) for agent in agents),
        # Of those that jobs can have: the GPUs of agents are only shown.
        available_gpus=sum(each.free_millis(gpu) for each in held for gpu in each.node.gpus) / GPU,
        used_gpus=sum(sum(each.gpu_millis.values()) for each in held) / GPU,
        total_jobs=sum(counts.values()),
        running_jobs=sum(counts[name] for name in PLACED),
        pending_jobs=reads.pending_count(),
        jobs_by_state={str(name): count for name, count in counts.items()},
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
