"""What jobs usually ask for, and what is lost to them."""

import pytest

from tests.builders import a_job, a_node, a_placement, a_state
from tgpu.core.capacity import profile_index
from tgpu.core.model.job import Request, Where, class_of
from tgpu.core.model.request_profile import (
    CPU_STEP,
    FEWEST,
    RequestProfile,
    RequestShape,
    TypeProfile,
    differs,
    learn,
    shape_of,
)
from tgpu.core.placement.place import place

HALF, ONE, TWO = RequestShape(500), RequestShape(1000), RequestShape(2000)


def test_a_wish_is_what_one_worker_asks_for():
    request = Request(4000, cpu_millis=8000, workers=2, where=Where(gpu_types=("H100", "A100")))
    assert shape_of(request) == RequestShape(2000, 4000, ("A100", "H100"))
    assert shape_of(Request(500, "T4")) == RequestShape(500, 0, ("T4",))


def test_nothing_is_learnt_from_few():
    assert learn({ONE: FEWEST - 1}) is None
    assert learn({ONE: FEWEST}) == RequestProfile(((ONE, 10_000),))


def test_the_rarest_are_left_out():
    found = learn({ONE: 600, HALF: 360, TWO: 40})
    assert found == RequestProfile(((ONE, 6250), (HALF, 3750)))


def test_the_order_of_counting_makes_no_difference():
    counts = {HALF: 500, ONE: 500, TWO: 500}
    assert learn(counts) == learn(dict(reversed(counts.items())))


@pytest.mark.parametrize(("other", "is_another"), [(5_100, False), (5_900, False), (6_100, True)])
def test_mixes_differ_when_a_tenth_of_the_requests_is_another(other: int, is_another: bool):
    before = RequestProfile(((ONE, 5_000), (HALF, 5_000)))
    after = RequestProfile(((ONE, other), (HALF, 10_000 - other)))
    assert differs(before, after) is is_another
    assert differs(after, before) is is_another


def test_what_is_left_of_a_gpu_is_lost_to_those_who_want_more():
    worth = TypeProfile(RequestProfile(((HALF, 4), (ONE, 6))), "A100").worth(0)
    assert worth.partly[400] == 400 * 10
    assert worth.partly[500] == 500 * 6
    assert worth.of_empty(3) == 0


def test_too_few_empty_gpus_are_lost_to_those_who_want_more_of_them():
    worth = TypeProfile(RequestProfile(((TWO, 4), (ONE, 6))), "A100").worth(0)
    assert worth.of_empty(1) == 1000 * 4
    assert worth.of_empty(2) == 0


def test_gpus_are_lost_to_who_may_not_have_them_or_wants_none():
    mix = RequestProfile(
        ((RequestShape(1000, 0, ("H100",)), 4), (RequestShape(0, 8_000), 1), (ONE, 5))
    )
    assert TypeProfile(mix, "A100").worth(9).of_empty(1) == 1000 * 5
    assert TypeProfile(mix, "H100").worth(9).of_empty(1) == 1000 * 1


def test_gpus_are_lost_to_who_needs_more_cores_than_there_are():
    mix = TypeProfile(
        RequestProfile(((RequestShape(1000, 2 * CPU_STEP), 4), (RequestShape(500, CPU_STEP), 6))),
        "A100",
    )
    assert mix.worth(0).of_empty(1) == 1000 * 10
    assert mix.worth(1).of_empty(1) == 1000 * 4
    assert mix.worth(2).of_empty(1) == 0


def test_cores_suffice_for_as_many_gpus_as_each_wish_makes_of_them():
    mix = TypeProfile(
        RequestProfile(
            ((RequestShape(1000, 2 * CPU_STEP), 4), (RequestShape(500, CPU_STEP // 2), 5), (ONE, 1))
        ),
        "T",
    )
    # With two steps: one whole GPU of the first sort, two of the second, any of the third.
    assert mix.usable(500, 2) == 500 * 10
    assert mix.usable(1500, 2) == 1000 * 4 + 1500 * 6
    assert mix.usable(4000, 2) == 1000 * 4 + 2000 * 5 + 4000 * 1


def test_news_of_groups_do_not_pile_up_and_none_is_missed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(profile_index, "_MOST_NEWS", 1)
    state = a_state(nodes=[a_node("n0", 2)])
    state.ledger.request_profile = RequestProfile(((HALF, 10_000),))
    half, whole = class_of(a_job(gpus=0.5)), class_of(a_job())
    for number in range(50):  # the same groups empty and fill again and again
        job, found = a_job(f"j{number}", gpus=0.5), place(state.ledger, half)
        assert found == a_placement(0, millis=500)
        assert place(state.ledger, whole) == a_placement(0)
        state.ledger.take(job, found)
        assert place(state.ledger, half) == a_placement(0, millis=500)
        assert place(state.ledger, whole) == a_placement(1)
        state.ledger.give(job, found)
    index = state.ledger.profile_index()
    assert index is not None
    assert max(map(len, index._news.values())) < 10
