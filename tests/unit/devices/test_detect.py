import threading
from pathlib import Path

import pytest

from tests.fakes.nvidia_smi import FakeNvidiaSmi
from tgpu.devices import detect as detection
from tgpu.devices.api import NoDriver
from tgpu.devices.detect import detect, node_size
from tgpu.devices.host import NodeSize, this_machine
from tgpu.devices.nvidia_smi import NvidiaSmiProvider
from tgpu.devices.simulated import SimulatedProvider

L4 = "0, GPU-a, NVIDIA L4, 23034, 0, 41, 0, 00000000:07:00.0\n"


def no_nvml() -> None:
    raise NoDriver("NVML Shared Library Not Found")


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither library nor program, whatever machine the tests run on."""
    monkeypatch.setattr(detection, "NvmlProvider", no_nvml)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("bare_machine")
def test_auto_simulates_where_nothing_is_found_and_says_what_was_tried() -> None:
    found = detect("auto")
    assert found.provider.simulated
    assert found.sentence == (
        "no NVIDIA driver found (NVML: NVML Shared Library Not Found; nvidia-smi: cannot run "
        "nvidia-smi: there is no such file or folder): using 4 simulated A100"
    )


@pytest.mark.usefixtures("bare_machine")
def test_auto_simulates_as_many_as_are_expected() -> None:
    assert len(detect("auto", expected=8).provider.read().gpus) == 8


@pytest.mark.usefixtures("bare_machine")
def test_auto_takes_nvidia_smi_where_nvml_fails(
    nvidia_smi: FakeNvidiaSmi, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi.answer(L4)
    monkeypatch.setenv("PATH", str(nvidia_smi.folder))
    found = detect("auto")
    assert isinstance(found.provider, NvidiaSmiProvider)
    assert found.sentence == ("found 1 L4 through nvidia-smi (NVML: NVML Shared Library Not Found)")


@pytest.mark.usefixtures("bare_machine")
@pytest.mark.parametrize("spec", ["nvml", "nvidia-smi"])
def test_a_named_provider_that_cannot_work_is_refused(spec: str) -> None:
    with pytest.raises(NoDriver):
        detect(spec)


def test_a_simulated_node_is_used_as_asked_for() -> None:
    found = detect("sim:2xA100,1xH100")
    assert found.sentence == "using 2 simulated A100, 1 simulated H100, as asked for"
    assert len(found.provider.read().gpus) == 3


def test_the_state_file_reaches_the_simulation(tmp_path: Path) -> None:
    file = tmp_path / "gpus.json"
    file.write_text('{"all": {"temperature_c": 77}}')
    found = detect("sim:1xA100", sim_state_file=file)
    assert found.provider.read().gpus[0].temperature_c == 77


@pytest.mark.parametrize("spec", ["", "cuda", "8xA100", "AUTO"])
def test_an_unknown_spec_is_refused_with_the_choices(spec: str) -> None:
    with pytest.raises(ValueError, match=f"{spec!r} must be auto, nvml, nvidia-smi or like sim:"):
        detect(spec)


@pytest.mark.usefixtures("bare_machine")
def test_a_driver_that_hangs_at_the_start_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    answering = threading.Event()

    def hangs() -> None:
        answering.wait(30)
        raise NoDriver("too late")

    monkeypatch.setattr(detection, "NvmlProvider", hangs)
    found = detect("auto", start_timeout_seconds=0.1)
    answering.set()
    assert "NVML: the driver did not answer in 0.1 s" in found.sentence


def test_a_bug_in_starting_is_not_taken_for_a_missing_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(detection, "NvmlProvider", broken)
    with pytest.raises(ZeroDivisionError):
        detect("auto")


def test_a_simulated_node_has_the_size_of_its_spec() -> None:
    provider = SimulatedProvider("sim:1xA100;cores=16;mem=64G")
    assert node_size(provider) == NodeSize(cores=16, memory_mib=64 * 1024)


def test_a_real_node_has_the_size_of_this_machine(nvidia_smi: FakeNvidiaSmi) -> None:
    nvidia_smi.answer(L4)
    assert node_size(NvidiaSmiProvider(nvidia_smi.command)) == this_machine()
