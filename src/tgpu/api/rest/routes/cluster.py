"""/api/v1: health, cluster status, GPUs."""

import os
from typing import Annotated

from fastapi import Path, Request

from tgpu import __version__
from tgpu.api.access.visible import sight, tenant_for
from tgpu.api.operations.cluster_status import visible_status
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.parameters import Name
from tgpu.api.rest.problem import ApiProblem
from tgpu.api.rest.route import Router
from tgpu.api.translate.gpus import gpu_list
from tgpu.api.translate.jobs import job_model
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.node import GpuChoice, GpuName
from tgpu.service.identity.caller import Permission, Principal
from tgpu.service.recording.audit import concerns
from tgpu.service.service import Service
from tgpu.text.gpu_names import gpu_name
from tgpu.wire.v1 import (
    AdoptRequest,
    ClusterStatus,
    GpuList,
    GpuModel,
    Health,
    JobModel,
    PauseRequest,
)

router = Router(tags=["cluster"])

GpuIndex = Annotated[int, Path(ge=0, le=1_000_000)]


@router.get("/api/v1/health")
@router.get("/health", include_in_schema=False)
async def health(request: Request) -> Health:
    """Whether the service is healthy, and its problems."""
    problems = service_of(request).problems()
    status = "degraded" if problems else "healthy"
    if not caller_of(request).may(Permission.SEE_CLUSTER):
        problems = []  # they name files and devices: strangers need not know
    return Health(status=status, version=__version__, pid=os.getpid(), problems=problems)


@router.get("/api/v1/cluster/status")
async def cluster_status(request: Request) -> ClusterStatus:
    """Counts of nodes, GPUs and jobs."""
    return visible_status(service_of(request), caller_of(request), request.app.state.data_dir)


@router.get("/api/v1/gpus")
async def gpus(request: Request) -> GpuList:
    """Every GPU: its readings, its jobs, and other processes on it."""
    service, caller = service_of(request), caller_of(request)
    found = gpu_list(service)
    if caller.may(Permission.SEE_CLUSTER):
        return found
    return found.model_copy(
        update={"gpus": [_without_others(service, caller, gpu) for gpu in found.gpus]}
    )


def _without_others(service: Service, caller: Principal, gpu: GpuModel) -> GpuModel:
    """Without the jobs and processes of others; that the GPU is busy is no secret."""
    entries = {job_id: service.reads.job(JobId(job_id)) for job_id in gpu.jobs}
    seen = sight(service, caller)
    own = {j for j, entry in entries.items() if entry and seen.sees_job(entry.job)}
    return gpu.model_copy(
        update={
            "jobs": [job_id for job_id in gpu.jobs if job_id in own],
            "processes": [process for process in gpu.processes if process.job_id in own],
            "problem": _without_job(gpu.problem),
            # Names and numbers of others are none of their business; that they are there is.
            "foreign": gpu.foreign and "used by other programs",
            "reservations": [
                each
                if caller.sees(each.tenant_id or "")
                else each.model_copy(update={"id": None, "tenant_id": None})
                for each in gpu.reservations
            ],
        }
    )


def _without_job(problem: str | None) -> str | None:
    """A quarantine names the job that it is because of."""
    kind = "quarantined"
    return kind if problem is not None and problem.startswith(kind) else problem


@router.post("/api/v1/gpus/{index}/pause")
async def pause(request: Request, index: GpuIndex, body: PauseRequest | None = None) -> GpuModel:
    """Start no new jobs on a GPU; running jobs continue. Only if jobs run on a single node."""
    return await _pause(request, index, (body or PauseRequest()).reason)


@router.post("/api/v1/gpus/{node}/{index}/pause")
async def pause_named(
    request: Request, node: Name, index: GpuIndex, body: PauseRequest | None = None
) -> GpuModel:
    """Start no new jobs on a GPU of this node; running jobs continue."""
    name = GpuName(NodeId(node), index)
    return await _pause(request, name, (body or PauseRequest()).reason)


@router.post("/api/v1/adopt", status_code=201)
async def adopt(request: Request, body: AdoptRequest) -> JobModel:
    """Turn a process that was started by hand into a lease on the GPUs it uses."""
    service, caller = service_of(request), caller_of(request)
    tenant_id = tenant_for(service, caller, body.tenant_id)
    job_id = await service.adopt(
        body.pid, tenant_id=tenant_id, queue=body.queue, name=body.name, node=body.node
    )
    concerns(job_id)
    return job_model(service, await service.job(job_id), None)  # it runs


@router.post("/api/v1/gpus/{index}/resume")
async def resume(request: Request, index: GpuIndex) -> GpuModel:
    """Let jobs start again on a paused GPU, or on one that is on probation after an error."""
    return await _pause(request, index, None)


@router.post("/api/v1/gpus/{node}/{index}/resume")
async def resume_named(request: Request, node: Name, index: GpuIndex) -> GpuModel:
    """Let jobs start again on a GPU of this node."""
    return await _pause(request, GpuName(NodeId(node), index), None)


async def _pause(request: Request, choice: GpuChoice, reason: str | None) -> GpuModel:
    service = service_of(request)
    name = await service.pause_gpu(choice, reason)
    for gpu in gpu_list(service).gpus:
        if (gpu.node, gpu.index) == name:
            return gpu
    raise ApiProblem(404, "NOT_FOUND", f"no GPU {gpu_name(*name)}")  # it went meanwhile
