from tgpu.core.model.ids import NodeId
from tgpu.devices.api import GpuReading, Snapshot
from tgpu.service.hardware.gpu_use import Busyness, GpuUse

NODE = NodeId("local")


def measure(use: GpuUse, percent: int | None, uuid: str = "a") -> None:
    gpu = GpuReading(0, uuid, "A100", "A100", 81_920, utilisation_percent=percent)
    use.measured(NODE, Snapshot("simulated", (gpu,)))


def test_use_is_the_mean_and_the_peak_of_all_readings() -> None:
    use = GpuUse()
    for percent in (0, 90, 30):
        measure(use, percent)
    assert (use.of(NODE, "a").mean_percent, use.of(NODE, "a").peak_percent) == (40.0, 90)


def test_a_gpu_that_does_not_tell_has_none() -> None:
    use = GpuUse()
    measure(use, None)
    assert use.of(NODE, "a") == Busyness()
    assert use.of(NODE, "a").mean_percent == 0.0


def test_each_card_has_its_own() -> None:
    use = GpuUse()
    measure(use, 10)
    measure(use, 20, "b")
    assert (use.of(NODE, "a").peak_percent, use.of(NODE, "b").peak_percent) == (10, 20)


def test_cards_of_two_nodes_may_have_one_uuid() -> None:
    use = GpuUse()
    measure(use, 10)
    assert use.of(NodeId("b"), "a") == Busyness()
