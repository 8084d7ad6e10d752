import pytest

from tgpu.cli.render.failures import CODES, failure_text
from tgpu.core.model.cause import Fault


def test_every_kind_of_failure_has_its_words() -> None:
    assert set(CODES) == {fault.value for fault in Fault}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (None, ""),
        ("node", "node: the machine failed, not the job"),
        ("of tomorrow", "of tomorrow"),
    ],
)
def test_a_failure_in_words(code: str | None, text: str) -> None:
    assert failure_text(code) == text
