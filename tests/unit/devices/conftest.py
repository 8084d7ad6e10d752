"""Fixtures for the hardware layer: the simulated NVML library and processes that read it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.nvidia_smi import FakeNvidiaSmi
from tests.fakes.nvml import FakeNvml, build_library, compiler


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if compiler() is None:
        pytest.skip("gcc is needed to build the simulated NVML library")
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def a_driver(nvml_library: Path, tmp_path: Path) -> Iterator[Callable[..., FakeNvml]]:
    drivers: list[FakeNvml] = []

    def make(**state: object) -> FakeNvml:
        drivers.append(FakeNvml(nvml_library, tmp_path, **state))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.close()


@pytest.fixture
def nvidia_smi(tmp_path: Path) -> FakeNvidiaSmi:
    folder = tmp_path / "smi"
    folder.mkdir()
    return FakeNvidiaSmi(folder)
