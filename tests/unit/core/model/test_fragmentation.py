"""What a mix of requests cannot use."""

from tgpu.core.model.fragmentation import MIX, MOST_GPUS, of_empty, unusable


def test_nothing_is_lost_where_everything_is_taken_or_all_could_use_it() -> None:
    assert unusable([]) == 0
    assert unusable([1000] * 8) == 0


def test_what_nobody_asks_for_is_lost_to_all() -> None:
    assert unusable([100]) == 100 * sum(weight for _, weight in MIX)


def test_half_a_gpu_is_lost_to_those_who_want_more() -> None:
    assert unusable([500]) == 500 * sum(weight for millis, weight in MIX if millis > 500)


def test_empty_gpus_are_lost_to_those_who_want_more_of_them() -> None:
    assert unusable([1000] * 3) == 3000 * sum(weight for millis, weight in MIX if millis > 3000)


def test_a_node_of_very_many_gpus_has_enough_for_all() -> None:
    assert of_empty(MOST_GPUS + 10) == 0
