"""The sum that people see of the fair share."""

import pytest

from tests.builders import a_job, a_state, a_tenant, submit
from tgpu.core.accounting.meter import SCALE, Meter, advanced
from tgpu.core.explain.share import MILLION, UsageShare, shares
from tgpu.core.model.ids import TenantId
from tgpu.core.state.cluster_state import State

HOUR = 3_600_000
WEEK = 168 * HOUR
RED, BLUE = TenantId("red"), TenantId("blue")


def a_world(**weights: int) -> State:
    weights = weights or {"red": 1000, "blue": 3000}
    return a_state(
        tenants=[a_tenant(name, weight_millis=weight) for name, weight in weights.items()]
    )


def measured(state: State, tenant_id: TenantId, user: str | None, gpus: int, rate: int = 0) -> None:
    state.meters.by_owner[tenant_id, user] = Meter(gpus * 1000 * SCALE, rate * 1000, 0)


def share_of(state: State, tenant_id: TenantId, now: int = 0) -> UsageShare:
    (found,) = (each.share for each in shares(state, now) if each.tenant_id == tenant_id)
    return found


def test_the_parts_are_by_weight_and_by_use() -> None:
    state = a_world()
    measured(state, RED, None, 2, rate=1)
    measured(state, BLUE, None, 2)
    red = share_of(state, RED)
    assert (red.weight_millis, red.entitled_ppm, red.used_ppm) == (1000, 250_000, 500_000)
    assert red.holds_gpu_millis == 1000
    assert red.used_gpu_millis_ms == pytest.approx(2000 * WEEK / 0.693147, rel=1e-5)
    assert share_of(state, BLUE).entitled_ppm == 750_000


def test_a_user_who_waits_for_a_first_gpu_is_entitled_to_a_part() -> None:
    state = a_world()
    measured(state, RED, "ann", 2)
    submit(state, a_job("j", tenant="red", user="bob"))
    (red,) = (each for each in shares(state, 0) if each.tenant_id == RED)
    assert [(user, share.entitled_ppm) for user, share in red.users] == [
        ("ann", 500_000),
        ("bob", 500_000),
    ]


def test_where_nobody_had_anything_all_are_even() -> None:
    assert share_of(a_world(), RED, now=77).even_at == 77


def test_who_had_their_part_is_even_now() -> None:
    state = a_world()
    measured(state, RED, None, 1)
    measured(state, BLUE, None, 3)
    assert share_of(state, RED, now=5).even_at == 5


def test_who_had_too_much_is_even_when_the_meters_say_so() -> None:
    state = a_world()
    measured(state, RED, None, 2)
    measured(state, BLUE, None, 2, rate=4)
    even_at = share_of(state, RED).even_at
    assert even_at is not None
    half_life = state.meters.half_life_ms
    red, blue = (
        advanced(state.meters.by_owner[owner, None], even_at, half_life).average
        for owner in (RED, BLUE)
    )
    assert red * MILLION // (red + blue) == pytest.approx(250_000, abs=2)
    assert share_of(state, BLUE).even_at == pytest.approx(even_at, abs=2)


def test_where_nobody_has_anything_now_nothing_becomes_even() -> None:
    state = a_world()
    measured(state, RED, None, 2)
    measured(state, BLUE, None, 1)
    assert share_of(state, RED).even_at is None


def test_an_inactive_tenant_is_entitled_to_nothing() -> None:
    state = a_state(tenants=[a_tenant("red"), a_tenant("blue", active=False)])
    assert share_of(state, BLUE).entitled_ppm == 0
    assert share_of(state, RED).entitled_ppm == MILLION


def test_the_users_of_a_tenant_weigh_alike() -> None:
    state = a_world()
    measured(state, RED, "ann", 3)
    measured(state, RED, "bob", 1)
    (red,) = (each for each in shares(state, 0) if each.tenant_id == RED)
    assert [(user, s.entitled_ppm, s.used_ppm) for user, s in red.users] == [
        ("ann", 500_000, 750_000),
        ("bob", 500_000, 250_000),
    ]
