from decimal import Decimal

import pytest

from tgpu.core.model.units import gpu_millis, gpus_text, memory_text


@pytest.mark.parametrize(
    ("amount", "millis"),
    [
        (1, 1000),
        (2, 2000),
        (0.1, 100),
        (1.1, 1100),
        (0.29, 290),  # 0.29 * 100 is 28.999999999999996 in floats
        ("0.5", 500),
        ("1.50", 1500),
        ("2e0", 2000),
        (Decimal("0.25"), 250),
        (100_000, 100_000_000),
    ],
)
def test_gpus_as_people_write_them_are_exact_thousandths(amount, millis: int) -> None:
    assert gpu_millis(amount) == millis
    assert type(gpu_millis(amount)) is int


@pytest.mark.parametrize(
    ("amount", "sentence"),
    [
        (0, "GPUs must be at least 0.01, not 0"),
        (-1, "GPUs must be at least 0.01, not -1"),
        (-0.5, "GPUs must be at least 0.01, not -0.5"),
        (0.009, "GPUs must be at least 0.01, not 0.009"),
        (0.005, "GPUs must be at least 0.01, not 0.005"),
        (1.005, "GPUs come in steps of 0.01, so 1.005 is not possible"),
        (0.1 + 0.2, "GPUs come in steps of 0.01, so 0.30000000000000004 is not possible"),
        (100_001, "GPUs must be at most 100000, not 100001"),
        ("1e30", "GPUs must be at most 100000, not 1e30"),
        (float("nan"), "GPUs must be a number like 1, 2 or 0.5, not nan"),
        (float("inf"), "GPUs must be a number like 1, 2 or 0.5, not inf"),
        (float("-inf"), "GPUs must be a number like 1, 2 or 0.5, not -inf"),
        ("sNaN", "GPUs must be a number like 1, 2 or 0.5, not 'sNaN'"),
        ("1e999999", "GPUs must be a number like 1, 2 or 0.5, not '1e999999'"),
        ("", "GPUs must be a number like 1, 2 or 0.5, not ''"),
        ("two", "GPUs must be a number like 1, 2 or 0.5, not 'two'"),
        (True, "GPUs must be a number like 1, 2 or 0.5, not True"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(amount, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"^GPUs ") as refusal:
        gpu_millis(amount)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("millis", "text"), [(0, "0"), (1000, "1"), (2000, "2"), (500, "0.5"), (1250, "1.25")]
)
def test_thousandths_are_shown_as_people_write_them(millis: int, text: str) -> None:
    assert gpus_text(millis) == text


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (0, "0 MiB"),
        (500, "500 MiB"),
        (40_960, "40 GiB"),
        (1536, "1.5 GiB"),
        (10_485_760, "10 TiB"),
        (2_097_152, "2 TiB"),
        (81_921, "81921 MiB"),
        (100_000, "100000 MiB"),
    ],
)
def test_memory_is_told_in_the_largest_unit_that_is_exact(mib: int, text: str) -> None:
    assert memory_text(mib) == text
