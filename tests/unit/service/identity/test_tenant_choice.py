"""Which tenant a call is for."""

import pytest

from tgpu.core.errors import Forbidden, InvalidRequest
from tgpu.core.model.ids import TenantId
from tgpu.service.identity.caller import Principal, Role
from tgpu.service.identity.tenant_choice import TenantUnsaid, chosen_tenant, default_tenant

A, B, DEFAULT = TenantId("a"), TenantId("b"), TenantId("default")
ALL = Principal("boss", Role.ADMIN)


def of(*tenants: TenantId) -> Principal:
    return Principal("ada", Role.USER, frozenset(tenants), 7, "uid")


def choose(caller: Principal, said: str | None, *there_are: TenantId) -> TenantId:
    return chosen_tenant(caller, said, there_are, lambda: "ask root")


@pytest.mark.parametrize(
    ("caller", "said", "there_are", "found"),
    [
        (of(A), None, (A, B), A),
        (of(A, B), None, (A,), A),  # the other is not there, or not any more
        (of(A, DEFAULT), None, (A, B, DEFAULT), DEFAULT),
        (of(A, B), "b", (A, B), B),
        (ALL, None, (A, DEFAULT), DEFAULT),
        (ALL, None, (B,), B),
    ],
)
def test_a_caller_with_one_tenant_need_not_name_it(caller, said, there_are, found):
    assert choose(caller, said, *there_are) == found
    if said is None:
        assert default_tenant(caller, there_are) == found


@pytest.mark.parametrize("caller", [of(A, B), ALL])
def test_with_several_the_sentence_names_them_and_how_to_choose(caller):
    with pytest.raises(TenantUnsaid) as raised:
        choose(caller, None, A, B)
    assert raised.value.message == (
        "which tenant is this for? You may use a, b; give --tenant (tenant_id), or set a "
        "default: tgpu config set tenant NAME"
    )
    assert default_tenant(caller, (A, B)) is None


def test_one_that_is_not_theirs_is_answered_with_those_that_are():
    for said in ("b", "nobody"):
        with pytest.raises(InvalidRequest, match="not one of yours; you may use: a"):
            choose(of(A), said, A, B)


@pytest.mark.parametrize("said", [None, "a"])
def test_who_belongs_nowhere_is_told_whom_to_ask(said):
    with pytest.raises(Forbidden, match="ask root"):
        choose(of(), said, A, B)
    with pytest.raises(Forbidden, match="ask root"):
        choose(of(DEFAULT), said, A, B)
