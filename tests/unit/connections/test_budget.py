"""Who may hold how many connections."""

import resource

import pytest

from tgpu.connections.budget import ConnectionBudget, ConnectionLimits, caller_behind
from tgpu.peers.peer import Origin, Peer


def test_a_place_that_is_given_back_is_free_again() -> None:
    budget = ConnectionBudget(3, 2)
    assert [bool(budget.take("a")) for _ in range(3)] == [False, False, True]
    assert not budget.take("b")
    assert "all 3 connections are in use" in budget.take("c")
    budget.give_back("a")
    assert not budget.take("c")
    assert budget.taken == 3


@pytest.mark.parametrize(
    ("origin", "caller"),
    [
        (Origin("unix", is_here=True, peer=Peer(1000)), "user 1000"),
        (Origin("127.0.0.1", is_here=True, peer=Peer(7)), "user 7"),
        (Origin("127.0.0.1", is_here=True), "127.0.0.1"),
        (Origin("10.0.0.9", is_here=False), "10.0.0.9"),
        (Origin("2001:db8:1:2:3::4", is_here=False), "2001:db8:1:2::/64"),
        (Origin("", is_here=False), "an unknown address"),
    ],
)
def test_connections_count_for_users_here_and_addresses_elsewhere(
    origin: Origin, caller: str
) -> None:
    assert caller_behind(origin) == caller


@pytest.mark.parametrize("soft", [64, 1024, 20_000, resource.RLIM_INFINITY])
def test_all_fit_into_the_descriptors_with_some_to_spare(
    soft: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    tcp, unix = ConnectionLimits().fitting()
    if soft != resource.RLIM_INFINITY:
        assert tcp.most + unix.most <= soft - min(256, soft // 2)
    assert tcp.most_of_a_caller <= tcp.most // 2
    assert unix.most >= 8
