"""/api/v1: health, cluster status, GPUs."""

import os
from collections.abc import Iterator, Mapping
from typing import Annotated

from fastapi import Path, Request

from tgpu import __version__
from tgpu.api.nodes import is_online, job_nodes
from tgpu.api.rest.access import caller_of, service_of, sight, tenant_for, visible_counts
from tgpu.api.rest.parameters import Name
from tgpu.api.rest.problem import ApiProblem
from tgpu.api.rest.route import Router
from tgpu.api.rest.view import iso, job_model
from tgpu.core.capacity.ledger import NodeUse
from tgpu.core.model.heat import Heat
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.lifecycle import PLACED, JobState
from tgpu.core.model.node import Gpu, GpuChoice, GpuName
from tgpu.core.model.units import GPU
from tgpu.devices.api import GpuProcess, GpuReading
from tgpu.service.commands.reservations import bookings_of
from tgpu.service.hardware.node_hardware import GpuProcesses, Hardware
from tgpu.service.hardware.processes import Who
from tgpu.service.identity.caller import Permission, Principal
from tgpu.service.recording.audit import concerns
from tgpu.service.service import Service
from tgpu.text.gpu_names import gpu_name
from tgpu.text.masking import mask_text
from tgpu.wire.v1 import (
    AdoptRequest,
    ClusterStatus,
    GpuList,
    GpuModel,
    GpuProcessModel,
    GpuReservationModel,
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


@router.get("/api/v1/gpus")
async def gpus(request: Request) -> GpuList:
    """Every GPU: its readings, its jobs, and other processes on it."""
    service, caller = service_of(request), caller_of(request)
    found = _gpu_list(service)
    if caller.may(Permission.SEE_CLUSTER):
        return found
    return found.model_copy(
        update={"gpus": [_without_others(service, caller, gpu) for gpu in found.gpus]}
    )


def _without_others(service: Service, caller: Principal, gpu: GpuModel) -> GpuModel:
    """Without the jobs and processes of others; that the GPU is busy is no secret."""
    entries = {job_id: service.state.entry(JobId(job_id)) for job_id in gpu.jobs}
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
    job_id = await service.adopt(body.pid, tenant_id=tenant_id, queue=body.queue, name=body.name)
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
    for gpu in _gpu_list(service).gpus:
        if (gpu.node, gpu.index) == name:
            return gpu
    raise ApiProblem(404, "NOT_FOUND", f"no GPU {gpu_name(*name)}")  # it went meanwhile


def _gpu_list(service: Service) -> GpuList:
    snapshot = service.hardware.snapshot
    jobs = _jobs_by_gpu(service)
    return GpuList(
        provider=snapshot.provider if snapshot is not None else "",
        simulated=service.hardware.simulated,
        problem=snapshot.problem if snapshot is not None else None,
        node=service.hardware.node_id,
        gpus=[
            model
            for node in job_nodes(service)
            for model in _gpu_models(service, service.state.ledger.node(node.node_id), jobs)
        ],
    )


def _jobs_by_gpu(service: Service) -> dict[GpuName, list[str]]:
    found: dict[GpuName, list[str]] = {}
    for entry in service.state.placed():
        placement = entry.progress.placement
        for name in placement.gpus() if placement is not None else ():
            found.setdefault(name, []).append(entry.job.job_id)
    return found


def _gpu_models(
    service: Service, use: NodeUse, jobs: Mapping[GpuName, list[str]]
) -> Iterator[GpuModel]:
    node_id = use.node.node_id
    hardware = service.hardware_of(node_id)
    snapshot = hardware.snapshot if hardware is not None else None
    readings = {g.index: g for g in snapshot.gpus} if snapshot is not None else {}
    for gpu in use.node.gpus:
        held = jobs.get(GpuName(node_id, gpu.index), [])
        yield _gpu_model(service, use, gpu, readings.get(gpu.index), held)


def _gpu_model(
    service: Service, use: NodeUse, gpu: Gpu, reading: GpuReading | None, jobs: list[str]
) -> GpuModel:
    taken = use.gpu_millis.get(gpu.index, 0)
    hardware = service.hardware_of(use.node.node_id)
    return GpuModel(
        index=gpu.index,
        uuid=gpu.uuid,
        name=reading.name if reading is not None else gpu.gpu_type,
        gpu_type=gpu.gpu_type,
        memory_mb=gpu.mem_mib,
        memory_used_mb=reading.memory_used_mib if reading is not None else None,
        temperature_c=reading.temperature_c if reading is not None else None,
        utilisation_percent=reading.utilisation_percent if reading is not None else None,
        nvlink_group=gpu.nvlink_group,
        numa_node=reading.numa_node if reading is not None else None,
        status=_status(gpu, taken),
        allocated=taken / GPU,
        jobs=jobs,
        paused=gpu.paused,
        problem=gpu.problem,
        foreign=gpu.foreign,
        slow=None if hardware is None else hardware.slow.get(gpu.index),
        slice_of=gpu.slice_of,
        mps=reading.mps if reading is not None else None,
        processes=_processes(service, hardware, gpu, reading),
        reservations=_reservations(service, use, gpu),
        node=use.node.node_id,
        gpu_name=gpu_name(use.node.node_id, gpu.index),
    )


def _reservations(service: Service, use: NodeUse, gpu: Gpu) -> list[GpuReservationModel]:
    return [
        GpuReservationModel(
            id=booking.booking_id,
            tenant_id=booking.tenant_id,
            starts_at=iso(booking.starts_at),
            ends_at=iso(booking.ends_at),
        )
        for booking in bookings_of(service.state)
        if booking.node_id == use.node.node_id and gpu.index in booking.gpus
    ]


def _status(gpu: Gpu, taken: int) -> str:
    if gpu.problem is not None:
        return "problem"
    if gpu.paused is not None:
        return "paused"
    if gpu.heat is Heat.HOT:
        return "hot"
    if gpu.foreign is not None:
        return "foreign"
    if not taken:
        return "free"
    return "busy" if taken == GPU else "shared"


def _processes(
    service: Service, hardware: Hardware | None, gpu: Gpu, reading: GpuReading | None
) -> list[GpuProcessModel]:
    """Who is on it, as the kernel told when it was last read."""
    known = hardware.processes if hardware is not None else {}
    there = known.get(gpu.index, GpuProcesses())
    whos = {who.pid: who for who in there.whos}
    now = service.clock.now()
    return [
        _process(process, whos.get(process.pid, Who(process.pid)), _job_of(there, process), now)
        for process in (reading.processes if reading is not None else ())
    ]


def _job_of(there: GpuProcesses, process: GpuProcess) -> str | None:
    claimed = there.claimed.get(process.pid)
    return None if claimed is None or claimed.key is None else claimed.key.job_id


def _process(process: GpuProcess, who: Who, job_id: str | None, now: int) -> GpuProcessModel:
    started_at = who.started_at
    return GpuProcessModel(
        pid=process.pid,
        user=who.user,
        command=None if who.command is None else mask_text(who.command),
        memory_mb=process.memory_mib or 0,
        job_id=job_id,
        started_at=None if started_at is None else iso(started_at),
        age_seconds=None if started_at is None else max(0, now - started_at) / 1000,
    )
