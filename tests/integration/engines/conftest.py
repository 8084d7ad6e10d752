"""A fresh box for every test; whatever was started in it is ended afterwards."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.engines.box import Box


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    box = Box(tmp_path)
    try:
        yield box
    finally:
        await box.tear_down()
