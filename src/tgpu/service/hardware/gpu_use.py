"""Utilisation of each GPU since the service started, from the regular readings."""

from dataclasses import dataclass

from tgpu.core.model.ids import NodeId
from tgpu.devices.api import Snapshot
from tgpu.service.recording.observer import Observer


@dataclass(frozen=True, slots=True)
class Busyness:
    """Sums, so that the mean is exact however long it has been."""

    readings: int = 0
    percent_sum: int = 0
    peak_percent: int = 0

    def plus(self, percent: int) -> "Busyness":
        return Busyness(
            self.readings + 1, self.percent_sum + percent, max(self.peak_percent, percent)
        )

    @property
    def mean_percent(self) -> float:
        return self.percent_sum / self.readings if self.readings else 0.0


class GpuUse(Observer):
    """By node and UUID: an index may name another card after a while."""

    def __init__(self) -> None:
        self._known: dict[tuple[NodeId, str], Busyness] = {}

    def measured(self, node_id: NodeId, snapshot: Snapshot) -> None:
        for gpu in snapshot.gpus:
            if gpu.utilisation_percent is not None:
                name = node_id, gpu.uuid
                before = self._known.get(name, Busyness())
                self._known[name] = before.plus(gpu.utilisation_percent)

    def of(self, node_id: NodeId, uuid: str) -> Busyness:
        return self._known.get((node_id, uuid), Busyness())
