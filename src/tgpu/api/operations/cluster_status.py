"""The status of the cluster, as much of it as a caller may know."""

from tgpu.api.access.visible import visible_counts
from tgpu.api.translate.cluster import cluster_model
from tgpu.core.model.lifecycle import PLACED, JobState
from tgpu.service.identity.caller import Permission, Principal
from tgpu.service.service import Service
from tgpu.wire.v1 import ClusterStatus


def visible_status(service: Service, caller: Principal, data_dir: str | None) -> ClusterStatus:
    """As much of it as the caller may know."""
    status = cluster_model(service, data_dir)
    return status if caller.may(Permission.SEE_CLUSTER) else _in_outline(service, caller, status)


def _in_outline(service: Service, caller: Principal, status: ClusterStatus) -> ClusterStatus:
    """What a user may know: how many GPUs there are, and of jobs only their own."""
    counts = visible_counts(service, caller)
    return status.model_copy(
        update={
            "total_jobs": sum(counts.values()),
            "running_jobs": sum(counts[name] for name in PLACED),
            "pending_jobs": counts[JobState.PENDING],
            "jobs_by_state": {str(name): count for name, count in counts.items()},
            "problem": None,
            "store": "",
            "data_dir": None,
        }
    )
