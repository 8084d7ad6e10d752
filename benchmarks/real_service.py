"""A real service process for benchmarks, in a directory of its own, ended with its supervisor."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.real_service import RealService


@dataclass(frozen=True)
class RunningService:
    url: str
    pid: int
    data_dir: Path


@contextlib.contextmanager
def running_service(
    gpus: str, *, tenants: tuple[str, ...] = (), clock: str = "auto"
) -> Iterator[RunningService]:
    with (
        tempfile.TemporaryDirectory(prefix="tgpu-bench-") as directory,
        RealService(
            Path(directory),
            gpus=gpus,
            settings={"scheduler": {"clock": clock, "max_queue_size": 0}},
            tenants=[{"tenant_id": tenant} for tenant in tenants],
        ) as service,
    ):
        service.start()
        yield RunningService(service.url, service.pid, service.data_dir)
