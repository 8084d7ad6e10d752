"""NvmlProvider on the simulated library, each scenario in a process of its own."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fakes.nvml import FakeNvml
from tests.unit.devices.eventually import eventually
from tgpu.devices.api import GpuProcess, NoDriver
from tgpu.devices.nvml import NvmlProvider

MIB = 1024 * 1024
ADriver = Callable[..., FakeNvml]


def test_it_tells_what_a_gpu_is(a_driver: ADriver) -> None:
    gpu = a_driver(count=1).read().gpus[0]
    assert (gpu.index, gpu.uuid) == (0, "GPU-fa4e0000-0000-4000-8000-000000000000")
    assert (gpu.name, gpu.gpu_type) == ("NVIDIA H100 80GB HBM3", "H100")
    assert gpu.memory_mib == 80 * 1024


def test_it_tells_how_a_gpu_feels(a_driver: ADriver) -> None:
    driver = a_driver(count=1, all={"temperature": 71, "gpu_util": 93, "memory_used": 700 * MIB})
    gpu = driver.read().gpus[0]
    assert (gpu.temperature_c, gpu.utilisation_percent, gpu.memory_used_mib) == (71, 93, 700)
    assert gpu.problem is None


def test_a_change_of_temperature_is_seen_at_the_next_read(a_driver: ADriver) -> None:
    driver = a_driver(count=2)
    assert [gpu.temperature_c for gpu in driver.read().gpus] == [35, 35]
    driver.set(count=2, gpus={1: {"temperature": 91}})
    assert [gpu.temperature_c for gpu in driver.read().gpus] == [35, 91]


def test_processes_are_listed_whoever_started_them(a_driver: ADriver) -> None:
    processes = [{"pid": 4711, "memory": 900 * MIB}, {"pid": 12, "memory": 5 * MIB}]
    gpu = a_driver(count=1, all={"processes": processes}).read().gpus[0]
    assert gpu.processes == (GpuProcess(12, 5, 0), GpuProcess(4711, 900, 0))


def test_nvlink_joins_gpus_in_groups(a_driver: ADriver) -> None:
    groups = [gpu.nvlink_group for gpu in a_driver(count=16).read().gpus]
    assert groups == [0] * 8 + [1] * 8


def test_gpus_whose_links_are_down_are_in_no_group(a_driver: ADriver) -> None:
    driver = a_driver(count=4, all={"nvlink_down": 18})
    assert [gpu.nvlink_group for gpu in driver.read().gpus] == [None] * 4


def test_a_model_without_nvlink_is_in_no_group(a_driver: ADriver) -> None:
    driver = a_driver(count=2, all={"nvlink_links": 0, "name": "NVIDIA L4"})
    assert [gpu.nvlink_group for gpu in driver.read().gpus] == [None, None]


def test_the_numa_node_comes_from_the_kernel_first(a_driver: ADriver) -> None:
    driver = a_driver(count=2)
    folder = driver.sysfs / "bus/pci/devices/0000:10:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text("3\n")
    assert [gpu.numa_node for gpu in driver.read().gpus] == [3, 0]


def test_a_gpu_has_the_number_of_its_device_file(a_driver: ADriver) -> None:
    assert [gpu.device_minor for gpu in a_driver(count=3).read().gpus] == [0, 1, 2]


def test_sixty_four_gpus_are_read(a_driver: ADriver) -> None:
    gpus = a_driver(count=64).read().gpus
    assert [gpu.index for gpu in gpus] == list(range(64))
    assert len({gpu.uuid for gpu in gpus}) == 64
    assert [gpu.nvlink_group for gpu in gpus] == [index // 8 for index in range(64)]


def test_a_read_costs_eleven_calls_a_gpu(a_driver: ADriver) -> None:
    driver = a_driver(count=64)
    driver.read()
    assert driver.ask("calls") == 64 * 11 + 1


def test_a_lost_gpu_stays_with_what_is_known_of_it(a_driver: ADriver) -> None:
    driver = a_driver(count=4)
    before = driver.read().gpus[2]
    driver.set(count=4, gpus={2: {"lost": True}})
    for _ in range(2):  # the read that notices, and one that looks for it in vain
        snapshot = driver.read()
        assert snapshot.gpus[2] == before.unmeasured("lost: GPU is lost")
        assert [gpu.problem is None for gpu in snapshot.gpus] == [True, True, False, True]
        assert snapshot.problem is None


def test_a_lost_gpu_that_returns_is_well_again(a_driver: ADriver) -> None:
    driver = a_driver(count=2)
    before = driver.read()
    driver.set(count=2, gpus={1: {"lost": True}})
    assert driver.read().gpus[1].problem == "lost: GPU is lost"
    driver.set(count=2)
    assert driver.read() == before


@pytest.mark.parametrize("code", [11, 16, 999], ids=["interrupts", "needs reset", "unknown"])
def test_any_other_error_of_a_gpu_is_a_loss_too(a_driver: ADriver, code: int) -> None:
    driver = a_driver(count=2)
    driver.read()
    driver.set(count=2, gpus={0: {"error": code}})
    gpus = driver.read().gpus
    assert (gpus[0].problem or "").startswith("lost: ")
    assert gpus[1].problem is None


def test_a_gpu_lost_from_the_start_gets_its_facts_when_it_returns(a_driver: ADriver) -> None:
    driver = a_driver(count=3, gpus={1: {"lost": True}})
    lost = driver.read().gpus[1]
    assert (lost.index, lost.gpu_type, lost.problem) == (1, "unknown", "lost: GPU is lost")
    driver.set(count=3)
    back = driver.read().gpus[1]
    assert (back.gpu_type, back.problem, back.nvlink_group) == ("H100", None, 0)


def test_a_gpu_that_is_no_longer_listed_counts_as_lost(a_driver: ADriver) -> None:
    driver = a_driver(count=3)
    driver.read()
    driver.set(count=2)
    gpus = driver.read().gpus
    assert [gpu.problem for gpu in gpus] == [None, None, "lost: the driver no longer lists it"]


def test_an_index_stays_with_its_gpu_when_the_driver_renumbers(a_driver: ADriver) -> None:
    driver = a_driver(count=3, gpus={i: {"uuid": f"GPU-{name}"} for i, name in enumerate("abc")})
    driver.read()
    driver.set(count=2, gpus={i: {"uuid": f"GPU-{name}"} for i, name in enumerate("ac")})
    gpus = [(gpu.index, gpu.uuid, gpu.problem is None) for gpu in driver.read().gpus]
    assert gpus == [(0, "GPU-a", True), (1, "GPU-b", False), (2, "GPU-c", True)]


def test_what_a_model_lacks_is_none(a_driver: ADriver) -> None:
    # 3 is "not supported", which every call on this GPU now answers.
    driver = a_driver(count=1)
    driver.read()
    driver.set(count=1, all={"error": 3})
    gpu = driver.read().gpus[0]
    measured = (gpu.temperature_c, gpu.utilisation_percent, gpu.memory_used_mib, gpu.processes)
    assert measured == (None, None, None, ())
    assert gpu.problem is None


def test_a_driver_that_dies_leaves_the_known_gpus_with_a_problem(a_driver: ADriver) -> None:
    driver = a_driver(count=2)
    before = driver.read()
    driver.set(count=2, init_error=9, all={"error": 9})
    for _ in range(2):
        snapshot = driver.read()
        assert snapshot.problem == "driver failed: Driver Not Loaded"
        assert snapshot.gpus == tuple(
            gpu.unmeasured("driver failed: Driver Not Loaded") for gpu in before.gpus
        )


def test_a_driver_that_comes_back_is_read_again(a_driver: ADriver) -> None:
    driver = a_driver(count=2)
    before = driver.read()
    driver.set(count=2, init_error=9, all={"error": 9})
    assert driver.read().problem is not None
    driver.set(count=2)
    assert driver.read() == before


def test_a_slow_driver_is_reported_and_recovers(a_driver: ADriver) -> None:
    driver = a_driver(count=1)
    assert driver.ask("watch")["problem"] is None
    driver.set(count=1, all={"delay_ms": 400})
    slow = driver.ask("watch")
    assert slow["problem"] == "slow: no answer from the driver in 0.5 s"
    assert slow["gpus"][0]["temperature_c"] == 35
    driver.set(count=1, all={"temperature": 60})
    eventually(lambda: driver.ask("watch")["problem"] is None)
    assert driver.ask("watch")["gpus"][0]["temperature_c"] == 60


@pytest.mark.parametrize(
    "fault", [{"init_error": 9, "all": {"error": 9}}, {"all": {"delay_ms": 300}}]
)
def test_a_driver_that_keeps_failing_is_stale_and_then_well_again(
    a_driver: ADriver, fault: dict[str, object]
) -> None:
    driver = a_driver(count=2)
    before = driver.ask("watch")
    driver.set(count=2, **fault)

    def is_stale() -> bool:
        found = driver.ask("watch")["gpus"]
        return all((gpu["problem"] or "").startswith("stale: ") for gpu in found)

    eventually(is_stale)
    assert driver.ask("watch")["gpus"][1]["temperature_c"] == 35
    driver.set(count=2)
    eventually(lambda: driver.ask("watch") == before)


def test_a_driver_that_hangs_does_not_keep_the_process_from_ending(a_driver: ADriver) -> None:
    driver = a_driver(count=1)
    driver.ask("watch")
    driver.set(count=1, all={"delay_ms": 600_000})
    assert driver.ask("watch")["problem"] is not None
    assert driver.close() == 0


def test_a_driver_without_gpus_is_no_driver(a_driver: ADriver) -> None:
    answer = a_driver(count=0).ask("start")
    assert answer == {"no_driver": "the NVIDIA driver is loaded but lists no GPU"}


def test_a_driver_that_is_not_loaded_is_no_driver(a_driver: ADriver) -> None:
    assert a_driver(init_error=9).ask("start") == {"no_driver": "the NVIDIA driver is not loaded"}


def test_a_machine_without_the_library_has_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    def not_found() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", not_found)
    with pytest.raises(NoDriver, match=r"library libnvidia-ml\.so\.1 was not found"):
        NvmlProvider()


def test_a_missing_binding_is_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NoDriver, match="nvidia-ml-py is not installed"):
        NvmlProvider()


def test_detection_finds_the_driver_and_sizes_the_real_node(a_driver: ADriver) -> None:
    answer = a_driver(count=3, gpus={1: {"lost": True}, 2: {"name": "NVIDIA L4"}}).ask("detect")
    assert answer["sentence"] == "found 1 H100, 1 unknown, 1 L4 through nvml, 1 of them unusable"
    assert answer["node"]["cores"] >= 1
    assert answer["node"]["memory_mib"] < 2 * 1024 * 1024


def test_unnamed_far_ends_are_joined_where_peers_reach_each_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = an_nvml_where_far_ends_have_no_name(joined={(0, 1)})
    monkeypatch.setitem(sys.modules, "pynvml", library)
    gpus = NvmlProvider(sysfs=tmp_path).read().gpus
    assert [gpu.nvlink_group for gpu in gpus] == [0, 0, None]


def an_nvml_where_far_ends_have_no_name(joined: set[tuple[int, int]]) -> object:
    """Three GPUs as multi-node NVLink shows them, which the simulated library cannot."""

    class NVMLError(Exception):
        value = 3

    def lacks(*_: object) -> object:
        raise NVMLError

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_NVLINK_MAX_LINKS=2,
        NVML_P2P_CAPS_INDEX_NVLINK=2,
        NVML_P2P_STATUS_OK=0,
        NVML_TEMPERATURE_GPU=0,
        nvmlMemory_v2=2,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 3,
        nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
        nvmlDeviceGetName=lambda handle: "NVIDIA GB200",
        nvmlDeviceGetPciInfo=lambda handle: SimpleNamespace(busId=f"0000000{handle}:01:00.0"),
        nvmlDeviceGetMinorNumber=lacks,
        nvmlDeviceGetNumaNodeId=lacks,
        nvmlDeviceGetMemoryInfo=lacks,
        nvmlDeviceGetTemperature=lacks,
        nvmlDeviceGetUtilizationRates=lacks,
        nvmlDeviceGetClockInfo=lacks,
        nvmlDeviceGetCurrentClocksThrottleReasons=lacks,
        nvmlDeviceGetTotalEccErrors=lacks,
        nvmlDeviceGetRemappedRows=lacks,
        nvmlDeviceGetMigMode=lacks,
        nvmlDeviceGetMPSComputeRunningProcesses_v3=lacks,
        nvmlEventSetCreate=lacks,
        nvmlDeviceGetComputeRunningProcesses_v3=lacks,
        nvmlDeviceGetComputeRunningProcesses_v2=lacks,
        nvmlDeviceGetGraphicsRunningProcesses_v3=lacks,
        nvmlDeviceGetNvLinkState=lambda handle, link: 1,
        nvmlDeviceGetNvLinkRemotePciInfo=lambda *_: SimpleNamespace(busId=b"FFFFFFFF:FF:FF.0"),
        nvmlDeviceGetP2PStatus=lambda one, other, what: 0 if (one, other) in joined else 5,
    )
