"""Every GPU: its health, who has it, who else is on it."""

from collections.abc import Iterator, Mapping

from tgpu.api.translate.nodes import job_nodes
from tgpu.core.model.heat import Heat
from tgpu.core.model.node import Gpu, GpuName
from tgpu.core.model.units import GPU
from tgpu.devices.api import GpuProcess, GpuReading
from tgpu.engines.node_processes import Who
from tgpu.service.hardware.node_hardware import GpuProcesses, Hardware
from tgpu.service.reads.values import NodeAllocation
from tgpu.service.service import Service
from tgpu.text.gpu_names import gpu_name
from tgpu.text.instants import utc_millis_text
from tgpu.text.masking import mask_text
from tgpu.wire.v1 import GpuList, GpuModel, GpuProcessModel, GpuReservationModel


def gpu_list(service: Service) -> GpuList:
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
            for model in _gpu_models(service, service.reads.node_allocation(node.node_id), jobs)
        ],
    )


def _jobs_by_gpu(service: Service) -> dict[GpuName, list[str]]:
    found: dict[GpuName, list[str]] = {}
    for job, progress in service.reads.placed_jobs():
        placement = progress.placement
        for name in placement.gpus() if placement is not None else ():
            found.setdefault(name, []).append(job.job_id)
    return found


def _gpu_models(
    service: Service, use: NodeAllocation, jobs: Mapping[GpuName, list[str]]
) -> Iterator[GpuModel]:
    node_id = use.node.node_id
    hardware = service.hardware_of(node_id)
    snapshot = hardware.snapshot if hardware is not None else None
    readings = {g.index: g for g in snapshot.gpus} if snapshot is not None else {}
    for gpu in use.node.gpus:
        held = jobs.get(GpuName(node_id, gpu.index), [])
        yield _gpu_model(service, use, gpu, readings.get(gpu.index), held)


def _gpu_model(
    service: Service, use: NodeAllocation, gpu: Gpu, reading: GpuReading | None, jobs: list[str]
) -> GpuModel:
    taken = use.taken_millis(gpu)
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


def _reservations(service: Service, use: NodeAllocation, gpu: Gpu) -> list[GpuReservationModel]:
    return [
        GpuReservationModel(
            id=booking.booking_id,
            tenant_id=booking.tenant_id,
            starts_at=utc_millis_text(booking.starts_at),
            ends_at=utc_millis_text(booking.ends_at),
        )
        for booking in service.reads.reservations()
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
        started_at=None if started_at is None else utc_millis_text(started_at),
        age_seconds=None if started_at is None else max(0, now - started_at) / 1000,
    )
