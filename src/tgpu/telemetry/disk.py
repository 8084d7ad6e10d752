"""Metrics of the disk and of hung reads, for Prometheus."""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tgpu.service.upkeep.disk import Disk
from tgpu.telemetry.families import gauge


class DiskMetrics(Collector):
    def __init__(self, disk: Disk, stuck_reads: Callable[[], int]) -> None:
        self._disk = disk
        self._stuck_reads = stuck_reads

    def collect(self) -> Iterator[Metric]:
        room = self._disk.room
        yield gauge(
            "disk_free_bytes",
            "Free space on the disk of the data directory, for the user of the service.",
            {} if room is None else {(): room.free},
        )
        yield gauge(
            "disk_low",
            "1 while the disk is full: the ballast is deleted and new jobs are rejected.",
            {(): self._disk.is_low},
        )
        yield gauge(
            "hung_file_reads",
            "Reads of job logs that hang.",
            {(): self._stuck_reads()},
        )
