from tgpu.devices.api import GpuProcess, GpuReading


def test_an_unmeasured_gpu_keeps_what_it_is_and_forgets_how_it_felt() -> None:
    facts = GpuReading(2, "GPU-a", "NVIDIA L4", "L4", 24576, nvlink_group=1, numa_node=0)
    measured = GpuReading(
        2, "GPU-a", "NVIDIA L4", "L4", 24576, 100, 50, 99, 1, 0, (GpuProcess(1, 2),)
    )
    assert measured.unmeasured(None) == facts
    assert measured.unmeasured("lost: gone").problem == "lost: gone"
