from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.nvidia_smi import FakeNvidiaSmi
from tgpu.devices.api import GpuProcess, GpuReading, NoDriver
from tgpu.devices.host import this_machine
from tgpu.devices.nvidia_smi import (
    NvidiaSmiProvider,
    parse_gpus,
    parse_health,
    parse_processes,
)

A100 = "0, GPU-a, NVIDIA A100-SXM4-80GB, 81920, 1024, 41, 87, 00000000:07:00.0\n"
T4 = "1, GPU-b, Tesla T4, 15360, 0, 36, 0, 00000000:08:00.0\n"
T4_MOVED_UP = T4.replace("1, GPU-b", "0, GPU-b")
LOST = ", ".join(["{}", *["[GPU is lost]"] * 7]) + "\n"


def test_a_line_is_a_gpu() -> None:
    assert parse_gpus(A100) == (
        GpuReading(0, "GPU-a", "NVIDIA A100-SXM4-80GB", "A100", 81920, 1024, 41, 87),
    )


def test_several_lines_are_several_gpus() -> None:
    assert [gpu.gpu_type for gpu in parse_gpus(A100 + T4)] == ["A100", "T4"]


def test_the_numa_node_is_looked_up_by_bus_id() -> None:
    assert parse_gpus(A100, {"00000000:07:00.0": 1}.get)[0].numa_node == 1


@pytest.mark.parametrize("lack", ["[N/A]", "[Not Supported]", "N/A", "[Insufficient Permissions]"])
def test_what_the_driver_does_not_tell_is_none(lack: str) -> None:
    line = f"0, GPU-a, NVIDIA A100-SXM4-80GB, 81920, {lack}, {lack}, {lack}, {lack}"
    gpu = parse_gpus(line)[0]
    measured = (gpu.memory_used_mib, gpu.temperature_c, gpu.utilisation_percent, gpu.numa_node)
    assert measured == (None, None, None, None)
    assert gpu.problem is None


@pytest.mark.parametrize(
    "trouble", ["GPU is lost", "Unknown Error", "GPU requires reset", "GPU requires restart"]
)
def test_a_gpu_in_trouble_is_lost(trouble: str) -> None:
    line = f"0, GPU-a, NVIDIA A100-SXM4-80GB, 81920, [{trouble}], 40, 0, 00000000:07:00.0"
    gpu = parse_gpus(line)[0]
    assert gpu.problem == f"lost: {trouble}"
    assert gpu.temperature_c is None


def test_a_gpu_that_tells_nothing_is_still_listed() -> None:
    gpu = parse_gpus(LOST.format(3))[0]
    assert (gpu.index, gpu.uuid, gpu.gpu_type) == (3, "GPU-unknown-3", "unknown")


@pytest.mark.parametrize(
    "odd",
    [
        "",
        "\n\n",
        "No devices were found",
        "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot, please",
        "0, GPU-a, too, short",
        "x, GPU-a, NVIDIA A100-SXM4-80GB, 81920, 1024, 41, 87, 00000000:07:00.0",
        '"',
    ],
)
def test_odd_lines_are_passed_over(odd: str) -> None:
    assert [gpu.uuid for gpu in parse_gpus(f"{odd}\n{A100}{odd}\n")] == ["GPU-a"]


def test_processes_are_grouped_by_gpu() -> None:
    text = "GPU-a, 4711, 900\nGPU-b, 12, [N/A]\nGPU-a, 13, 5\nno process here\n"
    assert parse_processes(text) == {
        "GPU-a": (GpuProcess(4711, 900), GpuProcess(13, 5)),
        "GPU-b": (GpuProcess(12, None),),
    }


@given(st.text())
def test_no_text_makes_the_parsers_fail(text: str) -> None:
    parse_gpus(text)
    parse_processes(text)


@given(st.lists(st.text(st.characters(exclude_characters=",\r\n")), min_size=8, max_size=8))
def test_no_fields_make_the_parser_fail(fields: list[str]) -> None:
    parse_gpus(",".join(fields))
    parse_gpus(",".join(["7", *fields[1:]]))


def test_it_reads_gpus_and_their_processes(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.answer(A100 + T4, "GPU-b, 4711, 900\n")
    snapshot = NvidiaSmiProvider(nvidia_smi.command).read()
    assert (snapshot.provider, snapshot.problem) == ("nvidia-smi", None)
    assert [gpu.temperature_c for gpu in snapshot.gpus] == [41, 36]
    assert [gpu.processes for gpu in snapshot.gpus] == [(), (GpuProcess(4711, 900),)]


def test_errors_and_speed_are_read_where_the_program_tells_them(nvidia_smi: FakeNvidiaSmi) -> None:
    health = "GPU-a, 1005, 0x0000000000000048, 2, Yes, No\nGPU-b, [N/A], [N/A], [N/A], [N/A], N/A\n"
    nvidia_smi.answer(A100 + T4, health=health)
    one, other = NvidiaSmiProvider(nvidia_smi.command).read().gpus
    assert (one.sm_clock_mhz, one.throttle) == (1005, ("hardware slowdown", "overheated"))
    assert (one.ecc_uncorrected, one.remap_pending, one.remap_failed) == (2, True, False)
    assert (other.sm_clock_mhz, other.throttle, other.ecc_uncorrected) == (None, (), None)
    assert (other.remap_pending, other.problem) == (None, None)


def test_a_program_too_old_to_tell_errors_still_lists_its_gpus(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.answer(A100, health='Field "remapped_rows.pending" is not a valid field to query.')
    (gpu,) = NvidiaSmiProvider(nvidia_smi.command).read().gpus
    assert (gpu.uuid, gpu.ecc_uncorrected) == ("GPU-a", None)


@given(st.text())
def test_no_text_makes_the_parser_of_errors_fail(text: str) -> None:
    parse_health(text)


def test_it_is_found_on_the_path(
    nvidia_smi: FakeNvidiaSmi, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi.answer(A100)
    monkeypatch.setenv("PATH", str(nvidia_smi.folder))
    assert NvidiaSmiProvider().read().gpus[0].uuid == "GPU-a"


def test_it_asks_for_plain_csv(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.answer(A100)
    NvidiaSmiProvider(nvidia_smi.command)
    gpus, processes, health = nvidia_smi.calls()
    assert gpus.startswith("--query-gpu=index,uuid,name,")
    assert processes.startswith("--query-compute-apps=gpu_uuid,pid,")
    assert all(
        call.endswith(" --format=csv,noheader,nounits") for call in (gpus, processes, health)
    )
    assert health.startswith("--query-gpu=uuid,clocks.sm,")


def test_a_change_of_temperature_is_seen_at_the_next_read(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.answer(A100)
    provider = NvidiaSmiProvider(nvidia_smi.command)
    nvidia_smi.answer(A100.replace(" 41,", " 90,"))
    assert provider.read().gpus[0].temperature_c == 90


def test_a_gpu_without_memory_of_its_own_shares_the_machines(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.answer("0, GPU-a, NVIDIA GB10, [N/A], [N/A], 40, 0, 00000000:01:00.0\n")
    gpu = NvidiaSmiProvider(nvidia_smi.command).read().gpus[0]
    assert (gpu.memory_mib, gpu.memory_used_mib) == (this_machine().memory_mib, None)


def test_a_lost_gpu_keeps_what_was_known_of_it(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.answer(A100 + T4)
    provider = NvidiaSmiProvider(nvidia_smi.command)
    nvidia_smi.answer(A100 + LOST.format(1))
    for _ in range(2):
        gpu = provider.read().gpus[1]
        assert (gpu.uuid, gpu.gpu_type, gpu.problem) == ("GPU-b", "T4", "lost: GPU is lost")


def test_an_index_stays_with_its_gpu_when_the_program_renumbers(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.answer(A100 + T4)
    provider = NvidiaSmiProvider(nvidia_smi.command)
    nvidia_smi.answer(T4_MOVED_UP)
    gpus = provider.read().gpus
    assert [(gpu.index, gpu.uuid) for gpu in gpus] == [(0, "GPU-a"), (1, "GPU-b")]
    assert [gpu.problem for gpu in gpus] == ["lost: nvidia-smi no longer lists it", None]


def test_a_new_gpu_never_takes_the_index_of_a_known_one(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.answer(A100)
    provider = NvidiaSmiProvider(nvidia_smi.command)
    nvidia_smi.answer(T4_MOVED_UP)
    assert [(gpu.index, gpu.uuid) for gpu in provider.read().gpus] == [(0, "GPU-a"), (1, "GPU-b")]


def test_a_gpu_lost_from_the_start_gets_its_facts_when_it_returns(
    nvidia_smi: FakeNvidiaSmi,
) -> None:
    nvidia_smi.answer(A100 + LOST.format(1))
    provider = NvidiaSmiProvider(nvidia_smi.command)
    nvidia_smi.answer(A100 + T4)
    assert [gpu.uuid for gpu in provider.read().gpus] == ["GPU-a", "GPU-b"]


def test_a_driver_that_dies_leaves_the_known_gpus_with_a_problem(
    nvidia_smi: FakeNvidiaSmi,
) -> None:
    nvidia_smi.answer(A100)
    provider = NvidiaSmiProvider(nvidia_smi.command)
    nvidia_smi.fail("NVIDIA-SMI has failed because\nit couldn't communicate with the driver.")
    snapshot = provider.read()
    assert snapshot.problem == (
        "driver failed: nvidia-smi lists no GPU (exit code 9: NVIDIA-SMI has failed because "
        "it couldn't communicate with the driver.)"
    )
    assert [(gpu.uuid, gpu.problem) for gpu in snapshot.gpus] == [("GPU-a", snapshot.problem)]
    nvidia_smi.answer(A100)
    assert provider.read().problem is None


def test_a_program_that_hangs_later_is_a_problem_and_is_ended(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.answer(A100)
    provider = NvidiaSmiProvider(nvidia_smi.command, timeout_seconds=30)
    provider._timeout_seconds = 1.0  # the start above may take longer on a busy machine
    nvidia_smi.hang()
    assert provider.read().problem == "driver failed: no answer from nvidia-smi in 1 s"
    assert not psutil.pid_exists(nvidia_smi.hanging_pid())


def test_a_missing_program_is_no_driver(tmp_path: Path) -> None:
    with pytest.raises(NoDriver, match=r"cannot run .*nvidia-smi: there is no such file"):
        NvidiaSmiProvider((str(tmp_path / "nvidia-smi"),))


def test_a_failing_program_is_no_driver(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.fail("broken")
    with pytest.raises(NoDriver, match=r"exit code 9: broken"):
        NvidiaSmiProvider(nvidia_smi.command)


def test_a_program_that_lists_no_gpu_is_no_driver(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.answer("No devices were found\n")
    with pytest.raises(NoDriver, match="No devices were found"):
        NvidiaSmiProvider(nvidia_smi.command)


def test_a_hanging_program_is_no_driver(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.hang()
    with pytest.raises(NoDriver, match=r"no answer from nvidia-smi in 0\.3 s"):
        NvidiaSmiProvider(nvidia_smi.command, timeout_seconds=0.3)


def test_nothing_is_started_while_a_process_hangs_in_the_driver(
    nvidia_smi: FakeNvidiaSmi, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi.answer(A100)
    provider = NvidiaSmiProvider(nvidia_smi.command)
    calls_before = len(nvidia_smi.calls())

    class Unkillable:
        pid = 4711
        returncode: int | None = None

        def poll(self) -> int | None:
            return self.returncode

    stuck = Unkillable()
    monkeypatch.setattr(provider, "_stuck", stuck)
    assert provider.read().problem == (
        "driver failed: nvidia-smi (process 4711) hangs in the driver"
    )
    assert len(nvidia_smi.calls()) == calls_before
    stuck.returncode = -9
    assert provider.read().problem is None
