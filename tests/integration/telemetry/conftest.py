"""One real service that has run a job and refused another, for all tests that look at it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.real_service import RealService, eventually, free_port


@dataclass(frozen=True, slots=True)
class Watched:
    service: RealService
    metrics_url: str

    def scrape(self) -> str:
        answer = httpx.get(self.metrics_url)
        assert answer.status_code == 200, answer.text
        return answer.text


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    port = free_port()
    settings: dict[str, dict[str, object]] = {
        "api": {"metrics_port": port},
        "logging": {"format": "json", "level": "DEBUG"},
    }
    directory: Path = tmp_path_factory.mktemp("watched")
    with RealService(directory, settings=settings) as service:
        service.start()
        for script in ("true", "exit 3"):
            job_id = service.submit(script)
            service.end(job_id)
        watched = Watched(service, f"http://127.0.0.1:{port}/metrics")
        eventually(lambda: "gpu_temperature_celsius{" in watched.scrape(), "a reading of the GPUs")
        yield watched
