import os

from tgpu.devices.host import this_machine


def test_this_machine_has_the_cores_this_process_may_use() -> None:
    assert this_machine().cores == len(os.sched_getaffinity(0))


def test_this_machine_has_the_memory_the_kernel_reports() -> None:
    with open("/proc/meminfo") as file:
        total_kib = int(file.readline().split()[1])
    assert this_machine().memory_mib == total_kib // 1024
