"""What each role may do, and for whom."""

import pytest

from tgpu.core.errors import Forbidden
from tgpu.core.model.ids import TenantId
from tgpu.service.identity.caller import (
    CLUSTER_WIDE,
    LOCAL,
    PERMISSIONS,
    Permission,
    Principal,
    Role,
    scope_of,
    unknown_tenant,
)

A, B = TenantId("a"), TenantId("b")


def test_each_role_may_do_all_that_the_one_below_may():
    admin, operator, user, viewer = (PERMISSIONS[role] for role in Role)
    assert admin > operator > user > viewer


@pytest.mark.parametrize(
    ("role", "may"),
    [
        (Role.VIEWER, {Permission.PUBLIC, Permission.READ}),
        (Role.USER, {Permission.PUBLIC, Permission.READ, Permission.CHANGE_JOBS}),
    ],
)
def test_what_is_not_given_to_a_role_is_refused(role, may):
    caller = Principal("ada", role, frozenset({A}))
    assert {permission for permission in Permission if caller.may(permission)} == may


@pytest.mark.parametrize("permission", sorted(CLUSTER_WIDE))
def test_an_admin_who_is_bound_to_a_tenant_decides_nothing_for_everybody(permission):
    with pytest.raises(Forbidden, match="a caller bound to tenant a may not"):
        Principal("ada", Role.ADMIN, frozenset({A})).require(permission)


def test_an_admin_who_is_bound_to_a_tenant_manages_its_queues():
    Principal("ada", Role.ADMIN, frozenset({A})).require(Permission.MANAGE_QUEUES)


def test_a_refusal_says_which_role_it_takes():
    with pytest.raises(Forbidden, match="a viewer may not submit or change jobs") as refused:
        Principal("ada", Role.VIEWER, frozenset({A})).require(Permission.CHANGE_JOBS)
    assert refused.value.details == [{"role": "viewer", "needs": "user"}]


@pytest.mark.parametrize(
    ("role", "tenants", "scope"),
    [
        (Role.ADMIN, None, None),
        (Role.OPERATOR, None, None),
        (Role.USER, None, frozenset()),
        (Role.VIEWER, ["*"], None),
        (Role.USER, ["a", "b"], {"a", "b"}),
        (Role.ADMIN, ["a"], {"a"}),
        (Role.ADMIN, [], frozenset()),
    ],
)
def test_only_who_runs_things_sees_everything_without_being_told(role, tenants, scope):
    assert scope_of(role, tenants) == scope


def test_a_caller_can_narrow_what_they_see_and_not_widen_it():
    caller = Principal("ada", Role.USER, frozenset({A}))
    assert caller.within() == frozenset({A})
    assert caller.within("a", "b") == frozenset({A})
    assert caller.within("b") == frozenset()
    assert LOCAL.within("b") == frozenset({B})
    assert LOCAL.within() is None


def test_an_unknown_tenant_is_told_with_the_callers_own_names_alone():
    caller = Principal("ada", Role.USER, frozenset({A}))
    assert unknown_tenant(caller, "b", [A, B]).message == (
        "tenant_id: no such tenant, or not one of yours; you may use: a (got 'b')"
    )


@pytest.mark.parametrize(
    ("principal", "actor"),
    [
        (LOCAL, "local"),
        (Principal("ci", Role.USER, kind="key"), "key:ci"),
        (Principal("ada", Role.USER, kind="user"), "user:ada"),
        (Principal("bob", Role.USER, uid=7, kind="uid"), "uid:bob"),
    ],
)
def test_an_actor_is_named_with_how_they_were_known(principal, actor):
    assert principal.actor == actor
