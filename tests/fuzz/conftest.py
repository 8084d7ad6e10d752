"""One service for each module of generated input."""

from collections.abc import Iterator

import pytest

from tests.fuzz.target import Target, a_target


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with a_target(tmp_path_factory.mktemp("fuzz")) as made:
        yield made
        assert made.is_well(), made.log_text()[-4000:]
        assert "Traceback" not in made.log_text()
