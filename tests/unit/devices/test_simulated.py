import json
import time
from pathlib import Path

import pytest

from tgpu.devices.api import GpuProcess
from tgpu.devices.simulated import SimulatedProvider


def write(path: Path, **state: object) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(state))
    new.rename(path)


def test_gpus_are_cool_idle_and_empty_at_first() -> None:
    snapshot = SimulatedProvider("sim:1xA100").read()
    gpu = snapshot.gpus[0]
    assert (gpu.temperature_c, gpu.memory_used_mib, gpu.utilisation_percent) == (35, 0, 0)
    assert (gpu.problem, snapshot.problem, snapshot.provider) == (None, None, "simulated")


def test_gpus_say_that_they_are_simulated() -> None:
    provider = SimulatedProvider("sim:1xA100")
    assert provider.simulated
    assert provider.read().gpus[0].name == "Simulated A100"


def test_uuids_are_the_same_in_every_process_and_differ_from_each_other() -> None:
    uuids = [gpu.uuid for gpu in SimulatedProvider("sim:2xA100,1xH100").read().gpus]
    assert uuids == ["GPU-sim-a100-0000", "GPU-sim-a100-0001", "GPU-sim-h100-0002"]


def test_nvlink_joins_eight_of_one_type() -> None:
    gpus = SimulatedProvider("sim:10xA100,4xH100,1xH200").read().gpus
    assert [gpu.nvlink_group for gpu in gpus] == [0] * 8 + [1] * 2 + [2] * 4 + [None]


def test_types_without_nvlink_are_in_no_group() -> None:
    gpus = SimulatedProvider("sim:4xRTX4090,2xT4").read().gpus
    assert [gpu.nvlink_group for gpu in gpus] == [None] * 6


def test_half_of_the_gpus_hang_on_each_numa_node() -> None:
    gpus = SimulatedProvider("sim:8xA100").read().gpus
    assert [gpu.numa_node for gpu in gpus] == [0] * 4 + [1] * 4


def test_values_can_be_set_for_one_gpu() -> None:
    provider = SimulatedProvider("sim:2xA100")
    provider.set(1, temperature_c=91, utilisation_percent=99, memory_used_mib=5000)
    untouched, gpu = provider.read().gpus
    assert (gpu.temperature_c, gpu.utilisation_percent, gpu.memory_used_mib) == (91, 99, 5000)
    assert untouched.temperature_c == 35


def test_setting_one_value_leaves_the_others() -> None:
    provider = SimulatedProvider("sim:1xA100")
    provider.set(0, temperature_c=91)
    provider.set(0, utilisation_percent=50)
    gpu = provider.read().gpus[0]
    assert (gpu.temperature_c, gpu.utilisation_percent) == (91, 50)


def test_reset_brings_the_defaults_back() -> None:
    provider = SimulatedProvider("sim:1xA100")
    before = provider.read()
    provider.set(0, temperature_c=91, lost=True)
    provider.reset(0)
    assert provider.read() == before


def test_processes_use_memory_unless_told_otherwise() -> None:
    provider = SimulatedProvider("sim:1xA100")
    provider.set(0, processes=[GpuProcess(1, 300), GpuProcess(2, None), GpuProcess(3, 50)])
    gpu = provider.read().gpus[0]
    assert gpu.processes == (GpuProcess(1, 300), GpuProcess(2, None), GpuProcess(3, 50))
    assert gpu.memory_used_mib == 350


def test_a_gpu_can_be_lost_and_found() -> None:
    provider = SimulatedProvider("sim:2xA100")
    before = provider.read().gpus[0]
    provider.set(0, lost=True)
    assert provider.read().gpus[0] == before.unmeasured("lost: simulated loss")
    provider.set(0, lost=False)
    assert provider.read().gpus[0] == before


@pytest.mark.parametrize("index", [-1, 2])
def test_an_unknown_gpu_cannot_be_set(index: int) -> None:
    with pytest.raises(ValueError, match=f"no GPU {index}: there are 0 to 1"):
        SimulatedProvider("sim:2xA100").set(index, temperature_c=1)


def test_the_state_file_is_seen_when_it_appears_changes_and_goes(tmp_path: Path) -> None:
    file = tmp_path / "gpus.json"
    provider = SimulatedProvider("sim:2xA100", file)

    def temperatures() -> list[int | None]:
        return [gpu.temperature_c for gpu in provider.read().gpus]

    assert temperatures() == [35, 35]
    write(file, gpus={"1": {"temperature_c": 91}})
    assert temperatures() == [35, 91]
    write(file, all={"temperature_c": 50}, gpus={"0": {"temperature_c": 60}})
    assert temperatures() == [60, 50]
    file.unlink()
    assert temperatures() == [35, 35]


def test_the_state_file_sets_everything_that_the_method_sets(tmp_path: Path) -> None:
    file = tmp_path / "gpus.json"
    processes = [{"pid": 4711, "memory_mib": 900}]
    write(file, gpus={"0": {"processes": processes, "utilisation_percent": 7}, "1": {"lost": True}})
    busy, lost = SimulatedProvider("sim:2xA100", file).read().gpus
    assert (busy.processes, busy.memory_used_mib) == ((GpuProcess(4711, 900),), 900)
    assert busy.utilisation_percent == 7
    assert lost.problem == "lost: simulated loss"


def test_what_a_method_sets_goes_over_the_state_file(tmp_path: Path) -> None:
    file = tmp_path / "gpus.json"
    write(file, all={"temperature_c": 50, "utilisation_percent": 9})
    provider = SimulatedProvider("sim:1xA100", file)
    provider.set(0, temperature_c=70)
    gpu = provider.read().gpus[0]
    assert (gpu.temperature_c, gpu.utilisation_percent) == (70, 9)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"gpus": {"0":', "truncated"),
        ('{"gpus": {"0": {"temp": 9}}}', "temp"),
        ('{"gpus": {"0": {"temperature_c": "hot"}}}', "temperature_c"),
        ('{"gpus": {"7": {"temperature_c": 90}}}', "no GPU 7: there are 0 to 0"),
        ("\xff", "not understood"),
    ],
)
def test_a_state_file_not_understood_changes_nothing_and_is_reported(
    tmp_path: Path, text: str, named: str
) -> None:
    file = tmp_path / "gpus.json"
    write(file, all={"temperature_c": 50})
    provider = SimulatedProvider("sim:1xA100", file)
    provider.read()
    file.write_bytes(text.encode("latin-1"))
    snapshot = provider.read()
    assert named in (snapshot.problem or "")
    assert snapshot.gpus[0].temperature_c == 50
    write(file, all={"temperature_c": 51})
    assert provider.read().problem is None


def test_the_driver_as_a_whole_can_fail(tmp_path: Path) -> None:
    file = tmp_path / "gpus.json"
    provider = SimulatedProvider("sim:2xA100", file)
    write(file, problem="fell over")
    snapshot = provider.read()
    assert snapshot.problem == "driver failed: fell over"
    assert [gpu.problem for gpu in snapshot.gpus] == ["driver failed: fell over"] * 2


def test_the_driver_can_be_slow(tmp_path: Path) -> None:
    file = tmp_path / "gpus.json"
    write(file, delay_ms=60)
    started = time.monotonic()
    SimulatedProvider("sim:1xA100", file).read()
    assert time.monotonic() - started >= 0.06


def test_errors_and_speed_can_be_set() -> None:
    provider = SimulatedProvider("sim:1xA100")
    (well,) = provider.read().gpus
    assert (well.ecc_uncorrected, well.remap_pending, well.remap_failed) == (0, False, False)
    assert (well.xids, well.throttle, well.mps) == ((), (), False)
    provider.set(0, ecc_uncorrected=2, remap_pending=True, remap_failed=True, xids=[31, 79])
    provider.set(0, sm_clock_mhz=705, throttle=["overheated"], mps=True)
    (ill,) = provider.read().gpus
    assert (ill.ecc_uncorrected, ill.remap_pending, ill.remap_failed) == (2, True, True)
    assert (ill.xids, ill.xid_count) == ((31, 79), 2)
    assert (ill.sm_clock_mhz, ill.throttle, ill.mps) == (705, ("overheated",), True)


def test_a_lost_gpu_still_tells_its_errors() -> None:
    provider = SimulatedProvider("sim:1xA100")
    provider.set(0, lost=True, xids=[79])
    (gpu,) = provider.read().gpus
    assert (gpu.problem, gpu.xids) == ("lost: simulated loss", (79,))


def test_the_load_of_a_process_can_be_set() -> None:
    provider = SimulatedProvider("sim:1xA100")
    provider.set(0, processes=[GpuProcess(4711, 5, 60)])
    assert provider.read().gpus[0].processes == (GpuProcess(4711, 5, 60),)


def test_a_gpu_can_be_a_slice_of_another() -> None:
    provider = SimulatedProvider("sim:2xA100-1g.10gb:10G")
    provider.set(0, slice_of=7)
    one, other = provider.read().gpus
    assert (one.gpu_type, one.memory_mib, one.slice_of) == ("A100-1g.10gb", 10_240, 7)
    assert other.slice_of is None
