"""Who counts as one caller, and how much one may ask."""

from tgpu.gateway.answer import Answer
from tgpu.gateway.headers import Caller
from tgpu.gateway.limits import Identity, RequestLimits, identity_in

ADDRESS = "192.0.2.1"


async def test_known_callers_have_their_own_limit_wherever_they_come_from() -> None:
    async def who(caller: Caller) -> Identity | None:
        return Identity(f"key:{caller.digest}", False)

    limits = RequestLimits(0.001, 3, None, who)
    ann = [await limits.wait_seconds(Caller(ADDRESS, (), "ann")) for _ in range(5)]
    assert [wait == 0 for wait in ann] == [True] * 4 + [False]  # the first was the address's
    assert await limits.wait_seconds(Caller(ADDRESS, (), "bob")) == 0


async def test_credentials_that_nobody_knows_count_for_the_address() -> None:
    asked = 0

    async def nobody(_: Caller) -> Identity | None:
        nonlocal asked
        asked += 1
        return None

    limits = RequestLimits(0.001, 3, None, nobody)
    waits = [await limits.wait_seconds(Caller(ADDRESS, (), f"new-{n}")) for n in range(6)]
    assert [wait == 0 for wait in waits] == [True] * 3 + [False] * 3
    assert asked == 3  # the service is not asked about those who are refused


async def test_where_nobody_is_asked_who_they_are_credentials_change_nothing() -> None:
    async def local(_: Caller) -> Identity | None:
        return Identity("", True)

    limits = RequestLimits(0.001, 2, None, local)
    waits = [await limits.wait_seconds(Caller(ADDRESS, (), f"new-{n}")) for n in range(3)]
    assert [wait == 0 for wait in waits] == [True, True, False]


def test_who_sees_everything_is_told_by_role_and_tenants() -> None:
    def told(role: str, tenants: str, kind: str = "key") -> Identity | None:
        body = f'{{"name": "a", "kind": "{kind}", "role": "{role}", "tenants": {tenants}}}'
        return identity_in(Answer(200, [], body.encode()))

    assert told("admin", "null") == Identity("key:a", True)
    assert told("operator", "null", "local") == Identity("", True)
    assert told("operator", '["red"]') == Identity("key:a", False)
    assert told("viewer", "null") == Identity("key:a", False)
    assert identity_in(Answer(401, [], b"{}")) is None
    assert identity_in(Answer(200, [], b"nonsense")) is None
