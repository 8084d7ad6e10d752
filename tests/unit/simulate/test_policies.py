"""Which policies simulations have, and what comes with them."""

import pytest

from tgpu.core.policies import POLICY_NAMES
from tgpu.core.rules import Passing, Rules
from tgpu.simulate.policies import COMPARED_NAMES, rules_of, simulated_policy, tick_of


@pytest.mark.parametrize("name", [*POLICY_NAMES, *COMPARED_NAMES])
def test_a_simulation_has_the_policies_of_a_service_and_published_ones(name: str) -> None:
    assert simulated_policy(name).name == name


def test_an_unknown_policy_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"'lottery'; there are: priority, .*, tiresias$"):
        simulated_policy("lottery")


def test_under_tiresias_whoever_fits_passes_as_under_las() -> None:
    given = Rules(Passing.STRICT, hold_after_ms=60)
    assert rules_of("tiresias", given) == rules_of("las", given) != given
    assert rules_of("fifo", given) == given


def test_somebody_looks_every_minute_where_time_alone_changes_ranks() -> None:
    assert [tick_of(name) for name in ("fifo", "las", "tiresias")] == [None, 60_000, 60_000]
