"""One service for a file's tests, and a maker of gateways in front of it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.gateway.gateways import RealGateway
from tests.real_service import RealService

SETTINGS: dict[str, dict[str, object]] = {
    "database": {"kind": "memory"},
    "engine": {"kind": "none"},
    "devices": {"monitor_interval_seconds": 0.3},
    "api": {"shutdown_seconds": 0.5},
}

MakeGateway = Callable[..., RealGateway]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealService]:
    with RealService(
        tmp_path_factory.mktemp("service"), gpus="sim:64xA100", settings=SETTINGS
    ) as started:
        yield started.start()


@pytest.fixture
def make_gateway(service: RealService, tmp_path: Path) -> Iterator[MakeGateway]:
    made: list[RealGateway] = []

    def make(*options: str, upstream: str = service.url, **environ: str) -> RealGateway:
        made.append(RealGateway(tmp_path, upstream, *options, environ=environ))
        return made[-1]

    yield make
    for gateway in made:
        gateway.stop()
