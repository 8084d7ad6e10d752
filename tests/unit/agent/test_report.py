"""What an agent says of its GPUs."""

import os

from tgpu.agent.report import readings_message
from tgpu.devices.api import GpuProcess, GpuReading, Snapshot

NOBODY = 2**22 + 1  # above the largest pid there can be


def a_reading(**fields: object) -> GpuReading:
    return GpuReading(1, "GPU-1", "NVIDIA H100", "H100", 80_000, **fields)  # type: ignore[arg-type]


def test_readings_are_sent_as_they_are():
    gpu = a_reading(temperature_c=61, utilisation_percent=0, memory_used_mib=5)
    (sent,) = readings_message(Snapshot("nvml", (gpu,), "slow")).gpus
    assert (sent.index, sent.uuid, sent.gpu_type, sent.memory_mb) == (1, "GPU-1", "H100", 80_000)
    assert (sent.temperature_c, sent.memory_used_mb) == (61, 5)
    assert sent.HasField("utilisation_percent")  # zero is a reading


def test_what_the_driver_does_not_tell_is_left_out():
    message = readings_message(Snapshot("nvml", (a_reading(),)))
    (sent,) = message.gpus
    assert not message.HasField("problem")
    assert not any(
        sent.HasField(name) for name in ("temperature_c", "utilisation_percent", "numa_node")
    )


def test_a_process_is_sent_with_its_owner():
    gpu = a_reading(processes=(GpuProcess(os.getpid(), 100),))
    (process,) = readings_message(Snapshot("nvml", (gpu,))).gpus[0].processes
    assert (process.pid, process.memory_mb) == (os.getpid(), 100)
    assert process.user
    assert "python" in process.command


def test_a_process_that_is_gone_is_sent_without():
    gpu = a_reading(processes=(GpuProcess(NOBODY, None),))
    (process,) = readings_message(Snapshot("nvml", (gpu,))).gpus[0].processes
    assert process.pid == NOBODY
    assert not process.HasField("user")
    assert not process.HasField("memory_mb")
