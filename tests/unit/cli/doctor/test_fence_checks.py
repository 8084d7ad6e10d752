"""What the doctor says of the fence around jobs."""

from types import SimpleNamespace
from typing import Any

import pytest

from tgpu.cli.doctor.fence_checks import gpu_fence
from tgpu.cli.findings import FindingLevel


def client(said: str) -> Any:
    nodes = [SimpleNamespace(source="agent", gpu_fence=""), SimpleNamespace(source="local")]
    nodes[1].gpu_fence = said
    return SimpleNamespace(nodes=lambda: SimpleNamespace(nodes=nodes))


@pytest.mark.parametrize(
    ("said", "level", "finding", "remedy"),
    [
        (
            "control groups version 1",
            FindingLevel.OK,
            "a job can open only its own GPUs (control groups version 1)",
            "",
        ),
        ("no: the GPUs are simulated", FindingLevel.OK, "GPUs are not isolated: the GPUs are", ""),
        (
            "no: only root can isolate GPUs",
            FindingLevel.WARN,
            "a job can open other GPUs too: only root can isolate GPUs",
            "run the service as root: sudo tgpu service install --system",
        ),
        (
            "no: engine.fence_gpus is off",
            FindingLevel.WARN,
            "other GPUs too: engine.fence_gpus is off",
            "set engine.fence_gpus to auto",
        ),
    ],
)
def test_it_is_said_whether_and_what_to_do(said, level, finding, remedy):
    (check,) = gpu_fence(client(said))
    assert check.level is level
    assert finding in check.finding
    assert check.remedy == remedy


def test_an_older_service_says_nothing_of_it():
    assert gpu_fence(client("")) == []
