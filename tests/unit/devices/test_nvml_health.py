"""What NVML tells of errors, speed and MIG slices, on the simulated library."""

from collections.abc import Callable

import pytest

from tests.fakes.nvml import FakeNvml

MIB = 1024 * 1024
ADriver = Callable[..., FakeNvml]


def test_a_sound_gpu_shows_no_sign_of_trouble(a_driver: ADriver) -> None:
    gpu = a_driver(count=1).read().gpus[0]
    assert (gpu.ecc_uncorrected, gpu.remap_pending, gpu.remap_failed) == (0, False, False)
    assert (gpu.xids, gpu.xid_count, gpu.throttle) == ((), 0, ())
    assert (gpu.sm_clock_mhz, gpu.mps, gpu.slice_of) == (1980, False, None)


def test_memory_errors_and_remapped_rows_are_told(a_driver: ADriver) -> None:
    state = {"ecc_uncorrected": 3, "remap_pending": 1, "remap_failed": 1}
    gpu = a_driver(count=1, all=state).read().gpus[0]
    assert (gpu.ecc_uncorrected, gpu.remap_pending, gpu.remap_failed) == (3, True, True)


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x1, ()),
        (0x4, ("power cap",)),
        (0x8 | 0x40, ("hardware slowdown", "overheated")),
        (0x20 | 0x40, ("overheated",)),
        (0x80, ("power brake",)),
    ],
    ids=["idle", "power cap", "hardware", "both thermal limits", "power brake"],
)
def test_why_it_is_slowed_down_is_told_in_words(
    a_driver: ADriver, bits: int, words: tuple[str, ...]
) -> None:
    assert a_driver(count=1, all={"throttle": bits}).read().gpus[0].throttle == words


def test_an_error_is_told_by_the_gpu_that_had_it_and_stays_counted(a_driver: ADriver) -> None:
    driver = a_driver(count=2)
    driver.read()
    driver.set(count=2, gpus={1: {"xid": 31, "xid_seq": 1}})
    assert [(gpu.xids, gpu.xid_count) for gpu in driver.read().gpus] == [((), 0), ((31,), 1)]
    driver.set(count=2, gpus={1: {"xid": 79, "xid_seq": 2}})
    assert driver.read().gpus[1].xids == (31, 79)
    assert driver.read().gpus[1].xid_count == 2  # no news


def test_the_error_of_a_gpu_that_is_lost_by_it_is_told_all_the_same(a_driver: ADriver) -> None:
    driver = a_driver(count=2)
    driver.read()
    driver.set(count=2, gpus={0: {"xid": 79, "xid_seq": 1, "lost": True}})
    gpu = driver.read().gpus[0]
    assert gpu.problem is not None
    assert gpu.xids == (79,)


def test_whose_the_load_is_is_told_where_several_share_a_gpu(a_driver: ADriver) -> None:
    processes = [{"pid": 12, "memory": MIB, "sm": 70}, {"pid": 13, "memory": MIB, "sm": 20}]
    gpu = a_driver(count=1, all={"processes": processes}).read().gpus[0]
    assert [process.sm_percent for process in gpu.processes] == [70, 20]


def test_each_mig_slice_is_a_gpu_of_its_own_and_the_cut_one_is_none(a_driver: ADriver) -> None:
    slices = [
        {"slices": 1},
        {"slices": 2, "name": "NVIDIA H100 80GB HBM3 MIG 2g.20gb", "memory_total": 20480 * MIB},
    ]
    gpus = a_driver(count=2, gpus={1: {"mig": slices}}).read().gpus
    assert [(gpu.index, gpu.gpu_type, gpu.slice_of) for gpu in gpus] == [
        (0, "H100", None),
        (2, "H100-1g.10gb", 1),
        (3, "H100-2g.20gb", 1),
    ]
    assert [gpu.memory_mib for gpu in gpus] == [81_920, 10_240, 20_480]
    assert [gpu.uuid[:4] for gpu in gpus] == ["GPU-", "MIG-", "MIG-"]
    assert [gpu.nvlink_group for gpu in gpus[1:]] == [None, None]


def test_a_slice_has_its_own_memory_and_processes_and_the_heat_of_the_whole(
    a_driver: ADriver,
) -> None:
    one = {"slices": 1, "memory_used": 700 * MIB, "processes": [{"pid": 5, "memory": 600 * MIB}]}
    state = {"temperature": 66, "mig": [one, {"slices": 1}]}
    first, second = a_driver(count=1, gpus={0: state}).read().gpus
    assert (first.memory_used_mib, [p.pid for p in first.processes]) == (700, [5])
    assert (second.memory_used_mib, second.processes) == (0, ())
    assert (first.temperature_c, second.temperature_c) == (66, 66)


def test_slices_come_and_go_and_keep_their_numbers(a_driver: ADriver) -> None:
    driver = a_driver(count=1)
    assert [gpu.index for gpu in driver.read().gpus] == [0]
    driver.set(count=1, gpus={0: {"mig": [{"slices": 1}, {"slices": 1}]}})
    assert [gpu.index for gpu in driver.read().gpus] == [1, 2]
    driver.set(count=1, gpus={0: {"mig": [{"slices": 1}]}})
    assert [gpu.index for gpu in driver.read().gpus] == [1]
    driver.set(count=1)
    assert [gpu.index for gpu in driver.read().gpus] == [0]


def test_slices_of_a_lost_gpu_are_lost(a_driver: ADriver) -> None:
    driver = a_driver(count=1, gpus={0: {"mig": [{"slices": 1}]}})
    driver.read()
    driver.set(count=1, gpus={0: {"mig": [{"slices": 1}], "lost": True}})
    assert [gpu.problem for gpu in driver.read().gpus] == ["lost: GPU is lost"]
    driver.set(count=1, gpus={0: {"mig": [{"slices": 1}]}})
    assert [(gpu.index, gpu.problem) for gpu in driver.read().gpus] == [(1, None)]
