from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_service import RealService


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.external)])
def service(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RealService]:
    """A large simulated node on every store. Nothing is launched: every job is a lease."""
    database = {"kind": request.param}
    if request.param == "postgresql":
        database["url"] = request.getfixturevalue("postgres_url")
    with RealService(
        tmp_path,
        gpus="sim:16xA100",
        settings={
            "engine": {"kind": "none"},
            "database": database,
            "billing": {"cost_per_gpu_hour": 7200},
        },
    ) as ready:
        yield ready.start()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealService]:
    """One for all tests that leave nothing behind that another would see."""
    settings = {"engine": {"kind": "none"}, "database": {"kind": "memory"}}
    directory = tmp_path_factory.mktemp("shared")
    with RealService(directory, gpus="sim:16xA100", settings=settings) as ready:
        yield ready.start()


def restarted(service: RealService) -> bool:
    """The same service in a new life, where its store keeps anything."""
    store: str = service.get("/cluster/status")["store"]
    if "memory" in store:
        return False
    service.restart()
    return True
