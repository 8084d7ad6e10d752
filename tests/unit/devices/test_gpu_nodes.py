"""The devices of GPUs, as a driver tells of them in files."""

import os
from pathlib import Path

import pytest

from tgpu.devices.api import GpuReading
from tgpu.devices.device_program import Device, DeviceRange
from tgpu.devices.gpu_nodes import GpuNodes, NoDevices, minor_of

LISTED = """Character devices:
  1 mem
{driver}
234 nvidia-nvswitch
235 nvidia-caps
510 nvidia-uvm

Block devices:
195 nothing of ours
"""


def gpu(index: int, minor: int | None, instance: tuple[int, int] | None = None) -> GpuReading:
    return GpuReading(index, f"GPU-{index}", "A", "A", 1, device_minor=minor, instance=instance)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    (tmp_path / "devices").write_text(LISTED.format(driver="195 nvidia"))
    return tmp_path


def nodes(machine: Path) -> GpuNodes:
    return GpuNodes(machine, machine / "dev")


def cap(machine: Path, name: str, minor: int) -> None:
    file = machine / "driver/nvidia/capabilities" / name / "access"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")


def test_a_gpu_is_opened_by_its_minor_number_and_not_by_its_index(machine):
    found = nodes(machine).devices_for([gpu(0, 3), gpu(1, 2)])
    assert found.opened == (Device(195, 3), Device(195, 2))
    assert found.shut == (DeviceRange(195, 0, 253),)


@pytest.mark.parametrize("driver", ["195 nvidia-frontend", "199 nvidia"])
def test_the_number_of_the_driver_is_read_and_not_assumed(machine, driver):
    (machine / "devices").write_text(LISTED.format(driver=driver))
    major = int(driver.split()[0])
    assert nodes(machine).devices_for([gpu(0, 0)]).opened == (Device(major, 0),)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_the_device_file_has_the_last_word(machine):
    (machine / "dev").mkdir()
    os.mknod(machine / "dev" / "nvidia0", 0o20666, os.makedev(1, 7))
    found = nodes(machine).devices_for([gpu(0, 0)])
    assert found.opened == (Device(1, 7),)
    assert found.shut == (DeviceRange(1, 0, 253), DeviceRange(195, 0, 253))


def test_a_job_without_gpus_opens_none_of_them(machine):
    found = nodes(machine).devices_for([])
    assert (found.opened, found.shut) == ((), (DeviceRange(195, 0, 253),))


def test_a_slice_opens_its_gpu_and_its_own_capabilities(machine):
    for name, minor in (("gi1", 12), ("gi1/ci0", 13), ("gi2", 21), ("gi2/ci0", 22)):
        cap(machine, f"gpu0/mig/{name}", minor)
    found = nodes(machine).devices_for([gpu(4, 0, (2, 0))])
    assert found.opened == (Device(195, 0), Device(235, 21), Device(235, 22))
    assert found.shut[1:] == tuple(DeviceRange(235, m, m) for m in (12, 13, 21, 22))


def test_what_cannot_be_told_is_said(machine):
    with pytest.raises(NoDevices, match="does not tell the minor number of GPU 5"):
        nodes(machine).devices_for([gpu(5, None)])
    (machine / "devices").write_text(LISTED.format(driver=""))
    with pytest.raises(NoDevices, match="names no NVIDIA driver"):
        nodes(machine).devices_for([])
    (machine / "devices").unlink()
    with pytest.raises(NoDevices, match="cannot be read: No such file"):
        nodes(machine).devices_for([])


def test_the_minor_number_from_the_bus_id(tmp_path):
    folder = tmp_path / "driver/nvidia/gpus/0000:3b:00.0"
    folder.mkdir(parents=True)
    (folder / "information").write_text("Model: \t NVIDIA A100\nDevice Minor: \t 6\n")
    assert minor_of("00000000:3B:00.0", tmp_path) == 6
    assert minor_of("00000000:3C:00.0", tmp_path) is None
    assert minor_of("nonsense", tmp_path) is None
