import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.core.model.heat import Heat, HeatLimits, heat_of
from tgpu.core.model.node import Gpu
from tgpu.core.placement.place import pick_shares

LIMITS = HeatLimits(threshold_c=75, margin_c=5)
temperatures = st.integers(0, 120)


@pytest.mark.parametrize(
    ("temperature", "before", "after"),
    [
        (40, Heat.COOL, Heat.COOL),
        (60, Heat.COOL, Heat.WARM),
        (74, Heat.COOL, Heat.WARM),
        (75, Heat.COOL, Heat.HOT),
        (74, Heat.HOT, Heat.HOT),  # not below the threshold by the margin yet
        (70, Heat.HOT, Heat.HOT),
        (69, Heat.HOT, Heat.WARM),
        (56, Heat.WARM, Heat.WARM),
        (54, Heat.HOT, Heat.COOL),
        (None, Heat.HOT, Heat.HOT),
    ],
)
def test_a_gpu_heats_up_at_once_and_cools_by_the_margin(
    temperature: int | None, before: Heat, after: Heat
) -> None:
    assert heat_of(temperature, before, LIMITS) is after


@given(temperatures, st.sampled_from(Heat))
def test_the_same_reading_twice_changes_nothing_more(temperature: int, before: Heat) -> None:
    once = heat_of(temperature, before, LIMITS)
    assert heat_of(temperature, once, LIMITS) is once


@given(temperatures, temperatures, st.sampled_from(Heat))
def test_a_warmer_reading_never_gives_a_cooler_band(one: int, other: int, before: Heat) -> None:
    low, high = sorted((one, other))
    assert heat_of(low, before, LIMITS) <= heat_of(high, before, LIMITS)


def a_gpu(index: int, heat: Heat, *, group: int | None = 0) -> Gpu:
    return Gpu(index, f"GPU-{index}", "A100", 80_000, group, heat=heat)


def test_a_hot_gpu_takes_no_new_job() -> None:
    assert not a_gpu(0, Heat.HOT).is_usable
    assert a_gpu(0, Heat.WARM).is_usable


@pytest.mark.parametrize("group", [0, None], ids=["linked", "apart"])
def test_the_cooler_gpu_is_taken_first(group: int | None) -> None:
    gpus = [a_gpu(0, Heat.WARM, group=group), a_gpu(1, Heat.COOL, group=group)]
    shares = pick_shares([(gpu, 1000) for gpu in gpus], 1000)
    assert shares is not None
    assert [share.gpu_index for share in shares] == [1]


def test_a_share_goes_to_the_cooler_of_two_that_are_equally_full() -> None:
    shares = pick_shares([(a_gpu(0, Heat.WARM), 500), (a_gpu(1, Heat.COOL), 500)], 500)
    assert shares is not None
    assert [share.gpu_index for share in shares] == [1]
