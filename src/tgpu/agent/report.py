"""What the devices report, as messages of `AgentService`."""

import psutil

from tgpu.devices.api import GpuProcess, GpuReading, Snapshot
from tgpu.text.masking import mask_text
from tgpu.wire import scheduler_pb2 as pb

# A command line may be as long as its owner likes; this much tells which one it is.
_LONGEST_COMMAND = 200


def gpu_messages(snapshot: Snapshot) -> list[pb.Gpu]:
    return [_gpu_message(gpu) for gpu in snapshot.gpus]


def readings_message(snapshot: Snapshot) -> pb.Readings:
    return pb.Readings(problem=snapshot.problem, gpus=gpu_messages(snapshot))


def _gpu_message(gpu: GpuReading) -> pb.Gpu:
    return pb.Gpu(
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
        processes=[_process_message(process) for process in gpu.processes],
    )


def _process_message(process: GpuProcess) -> pb.GpuProcess:
    """Who it is, as far as the kernel tells us."""
    message = pb.GpuProcess(pid=process.pid, memory_mb=process.memory_mib)
    try:
        found = psutil.Process(process.pid)
        message.user = found.username()
        message.command = mask_text(" ".join(found.cmdline()))[:_LONGEST_COMMAND] or found.name()
    except (psutil.Error, OSError, ValueError, UnicodeError):
        pass  # it ended meanwhile, or is hidden from us
    return message
