"""Published policies of simulations, and what comes with them."""

import pytest

from tgpu.core.policies import POLICY_NAMES
from tgpu.simulate.policies import PUBLISHED_NAMES, service_policy_of, tick_of, time_slicing_of


@pytest.mark.parametrize("name", PUBLISHED_NAMES)
def test_a_published_policy_is_known_by_its_name(name: str) -> None:
    slicing = time_slicing_of(name)
    assert slicing is not None
    assert slicing.name == name
    assert name not in POLICY_NAMES


def test_a_policy_of_a_service_needs_no_rounds() -> None:
    assert [time_slicing_of(name) for name in POLICY_NAMES] == [None] * len(POLICY_NAMES)


def test_under_tiresias_the_rules_are_those_of_las() -> None:
    assert (service_policy_of("tiresias"), service_policy_of("fifo")) == ("las", "fifo")


def test_somebody_looks_every_minute_where_time_alone_changes_ranks() -> None:
    assert [tick_of(name) for name in ("fifo", "las", "tiresias")] == [None, 60_000, 60_000]
