"""Services on directories of the test's own; whatever they started is ended with the test."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.real_service import RealService


class StartService(Protocol):
    def __call__(self, **options: Any) -> RealService: ...


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartService]:
    """Starts a service; more than one in a test share the directory's parent only."""
    with ExitStack() as stack:
        services: list[RealService] = []

        def begin(**options: Any) -> RealService:
            directory = tmp_path / f"service{len(services)}"
            service = stack.enter_context(RealService(directory, **options))
            services.append(service)
            return service.start()

        yield begin
        for service in services:
            sys.stdout.write(service.log_text())  # shown where the test failed
