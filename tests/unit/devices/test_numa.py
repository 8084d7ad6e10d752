from pathlib import Path

import pytest

from tgpu.devices.numa import numa_node_of


def a_device(sysfs: Path, name: str, numa_node: str) -> None:
    folder = sysfs / "bus/pci/devices" / name
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(numa_node)


def test_the_node_is_read_under_the_kernels_spelling_of_the_bus_id(tmp_path: Path) -> None:
    a_device(tmp_path, "0000:3b:00.0", "1\n")
    assert numa_node_of("00000000:3B:00.0", tmp_path) == 1


def test_minus_one_means_that_the_kernel_knows_none(tmp_path: Path) -> None:
    a_device(tmp_path, "0000:3b:00.0", "-1\n")
    assert numa_node_of("00000000:3B:00.0", tmp_path) is None


@pytest.mark.parametrize("bus_id", ["00000000:99:00.0", "nonsense", "", "[N/A]"])
def test_an_unknown_device_has_no_node(tmp_path: Path, bus_id: str) -> None:
    assert numa_node_of(bus_id, tmp_path) is None
